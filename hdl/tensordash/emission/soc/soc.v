// A small system around tensordash_core, configuration @DIGEST@: PicoRV32, memory with two ports, UART, timer.
//
//   address       what                                                          size
//   0x00000000    memory; the processor starts at its first word                RAM_BYTES
//   0x10000000    UART: write a byte to send; a write waits for the last byte   4
//   0x10000004    cycles since reset, modulo 2^32                               4
//   0x10000008    alarm: an interrupt after this number of cycles; 0: none      4
//   0x1000000c    exit: halts the simulation with this status                   4
//   0x10000010    1 stops the core's clock while the core is idle, 0 starts it  4
//   0x20000000    registers of tensordash_core                                  4096
//
// Interrupts of the processor, by level: 3, tensordash_core; 4, the alarm.

`default_nettype none

module soc #(
  parameter RAM_BYTES = @RAM_BYTES@,
  parameter HEX = "firmware.hex",      // a word of memory in each line
  parameter CLOCKS_PER_BIT = 434,      // of the UART: 115200 bits per second at 50 MHz
  parameter STOP_CORE_CLOCK = 0        // 1: firmware can stop the core's clock, by a gate that suits a simulation
) (
  input wire clk,
  input wire rst,                      // synchronous
  output wire uart_tx,
  output reg halted,
  output reg [7:0] exit_status,
  output wire trap                     // the processor found an illegal instruction or access
);
  localparam DATA = @DATA@;            // bits of a word of memory: the width of the core's bus
  localparam BYTES = DATA / 8;
  localparam LOW = $clog2(BYTES);
  localparam HIGH = $clog2(RAM_BYTES);
  localparam ADDRESS = @ADDRESS@;      // bits of the core's addresses

  // The processor. Its look-ahead signals start a memory access in the cycle before `mem_valid`.
  wire mem_valid, mem_ready, mem_la_read, mem_la_write;
  wire [31:0] mem_addr, mem_wdata, mem_rdata, mem_la_addr, mem_la_wdata;
  wire [3:0] mem_wstrb, mem_la_wstrb;
  wire core_irq;
  wire alarm_irq;

  picorv32 #(
    .BARREL_SHIFTER(1), .COMPRESSED_ISA(1), .ENABLE_MUL(1), .ENABLE_FAST_MUL(1), .ENABLE_DIV(1),
    .ENABLE_IRQ(1), .ENABLE_IRQ_QREGS(0), .ENABLE_IRQ_TIMER(0), .LATCHED_IRQ(0), .ENABLE_COUNTERS64(0)
  ) cpu (
    .clk(clk), .resetn(!rst && !halted), .trap(trap),
    .mem_valid(mem_valid), .mem_ready(mem_ready), .mem_addr(mem_addr), .mem_wdata(mem_wdata), .mem_wstrb(mem_wstrb),
    .mem_rdata(mem_rdata), .mem_la_read(mem_la_read), .mem_la_write(mem_la_write), .mem_la_addr(mem_la_addr),
    .mem_la_wdata(mem_la_wdata), .mem_la_wstrb(mem_la_wstrb), .mem_instr(),
    .irq({27'd0, alarm_irq, core_irq, 3'd0}), .eoi(),
    .pcpi_valid(), .pcpi_insn(), .pcpi_rs1(), .pcpi_rs2(), .pcpi_wr(1'b0), .pcpi_rd(32'd0), .pcpi_wait(1'b0),
    .pcpi_ready(1'b0), .trace_valid(), .trace_data()
  );

  wire in_ram = mem_addr[31:28] == 4'h0;
  wire in_devices = mem_addr[31:28] == 4'h1;
  wire in_core = mem_addr[31:28] == 4'h2;
  wire writes = mem_wstrb != 0;

  // Memory: port A for the processor, port B for the core, which reads or writes a word per cycle.
  reg [DATA-1:0] ram [0:RAM_BYTES/BYTES-1];
  initial $readmemh(HEX, ram);

  reg [DATA-1:0] a_data;
  integer a;
  always @(posedge clk) begin
    if (mem_la_read) a_data <= ram[mem_la_addr[HIGH-1:LOW]];
    if (mem_la_write && mem_la_addr[31:28] == 0)
      for (a = 0; a < BYTES; a = a + 1)
        if (mem_la_wstrb[a % 4] && mem_la_addr % BYTES / 4 == a / 4)
          ram[mem_la_addr[HIGH-1:LOW]][8*a +: 8] <= mem_la_wdata[8*(a%4) +: 8];
  end
  wire [31:0] ram_word = a_data[mem_addr % BYTES / 4 * 32 +: 32];

  // The core's bus.
  wire arvalid, rready, awvalid, wvalid, wlast, bready, arid, awid;
  wire [ADDRESS-1:0] araddr, awaddr;
  wire [7:0] arlen, awlen;
  wire [DATA-1:0] wdata;
  wire [BYTES-1:0] wstrb;

  reg next_read, reading, read_id, next_id, read_bad, next_bad;   // a waiting burst, and the burst being answered
  reg [HIGH-1:LOW] read_word, next_word;
  reg [7:0] read_left, next_left;
  reg rvalid, rid, rlast, rbad;
  reg writing, write_id, write_bad, bvalid, turn;
  reg [HIGH-1:LOW] write_word;
  reg [DATA-1:0] b_data;

  wire arready = !next_read;
  wire awready = !writing && !bvalid;
  wire wready = writing && (turn || !reading);
  wire b_write = wvalid && wready;
  wire b_read = reading && !b_write && (!rvalid || rready);
  wire read_ends = b_read && read_left == 0;

  // One address for both, so that a block RAM with two ports is enough.
  wire [HIGH-1:LOW] b_word = b_write ? write_word : read_word;
  integer b;
  always @(posedge clk) begin
    if (b_write) begin
      for (b = 0; b < BYTES; b = b + 1)
        if (wstrb[b] && !write_bad) ram[b_word][8*b +: 8] <= wdata[8*b +: 8];
    end else if (b_read) b_data <= ram[b_word];
  end

  always @(posedge clk) begin
    turn <= !turn;
    if (arvalid && arready) begin
      next_read <= 1;
      next_word <= araddr[HIGH-1:LOW];
      next_left <= arlen;
      next_id <= arid;
      next_bad <= |(araddr >> HIGH);
    end
    if (next_read && (!reading || read_ends)) begin
      next_read <= 0;
      reading <= 1;
      read_word <= next_word;
      read_left <= next_left;
      read_id <= next_id;
      read_bad <= next_bad;
    end else if (b_read) begin
      reading <= !read_ends;
      read_word <= read_word + 1'b1;
      read_left <= read_left - 1'b1;
    end
    if (b_read) begin
      rvalid <= 1;
      rid <= read_id;
      rlast <= read_ends;
      rbad <= read_bad;
    end else if (rready) rvalid <= 0;

    if (awvalid && awready) begin
      writing <= 1;
      write_word <= awaddr[HIGH-1:LOW];
      write_id <= awid;
      write_bad <= |(awaddr >> HIGH);
    end
    if (b_write) begin
      write_word <= write_word + 1'b1;
      writing <= !wlast;
      bvalid <= wlast;
    end
    if (bvalid && bready) bvalid <= 0;
    if (rst) begin
      next_read <= 0;
      reading <= 0;
      rvalid <= 0;
      writing <= 0;
      bvalid <= 0;
      turn <= 0;
    end
  end

  // The core's registers: a transfer of the processor becomes an AXI4-Lite transfer.
  reg aw_sent, w_sent, ar_sent;
  wire s_awready, s_wready, s_bvalid, s_arready, s_rvalid;
  wire [31:0] s_rdata;
  wire core_write = mem_valid && in_core && writes;
  wire core_read = mem_valid && in_core && !writes;
  wire core_ready = (core_write && s_bvalid) || (core_read && s_rvalid);
  always @(posedge clk) begin
    aw_sent <= core_write && !core_ready && (aw_sent || s_awready);
    w_sent <= core_write && !core_ready && (w_sent || s_wready);
    ar_sent <= core_read && !core_ready && (ar_sent || s_arready);
    if (rst) begin
      aw_sent <= 0;
      w_sent <= 0;
      ar_sent <= 0;
    end
  end

  // The core's clock. While it is stopped, it still ticks for accesses to registers.
  reg stopped, core_enable;
  always @(negedge clk) core_enable <= rst || !stopped || (mem_valid && in_core);
  wire core_clk = clk && (core_enable || !STOP_CORE_CLOCK);

  tensordash_core core (
    .clk(core_clk), .rst(rst), .irq(core_irq),
    .s_axi_awaddr(mem_addr[11:0]), .s_axi_awprot(3'd0), .s_axi_awvalid(core_write && !aw_sent),
    .s_axi_awready(s_awready), .s_axi_wdata(mem_wdata), .s_axi_wstrb(mem_wstrb), .s_axi_wvalid(core_write && !w_sent),
    .s_axi_wready(s_wready), .s_axi_bresp(), .s_axi_bvalid(s_bvalid), .s_axi_bready(1'b1),
    .s_axi_araddr(mem_addr[11:0]), .s_axi_arprot(3'd0), .s_axi_arvalid(core_read && !ar_sent),
    .s_axi_arready(s_arready), .s_axi_rdata(s_rdata), .s_axi_rresp(), .s_axi_rvalid(s_rvalid), .s_axi_rready(1'b1),
    .m_axi_arid(arid), .m_axi_araddr(araddr), .m_axi_arlen(arlen), .m_axi_arvalid(arvalid), .m_axi_arready(arready),
    .m_axi_arsize(), .m_axi_arburst(), .m_axi_arlock(), .m_axi_arcache(), .m_axi_arprot(), .m_axi_arqos(),
    .m_axi_rid(rid), .m_axi_rdata(b_data), .m_axi_rresp({rbad, rbad}), .m_axi_rlast(rlast), .m_axi_rvalid(rvalid),
    .m_axi_rready(rready),
    .m_axi_awid(awid), .m_axi_awaddr(awaddr), .m_axi_awlen(awlen), .m_axi_awvalid(awvalid), .m_axi_awready(awready),
    .m_axi_awsize(), .m_axi_awburst(), .m_axi_awlock(), .m_axi_awcache(), .m_axi_awprot(), .m_axi_awqos(),
    .m_axi_wdata(wdata), .m_axi_wstrb(wstrb), .m_axi_wlast(wlast), .m_axi_wvalid(wvalid), .m_axi_wready(wready),
    .m_axi_bid(write_id), .m_axi_bresp({write_bad, write_bad}), .m_axi_bvalid(bvalid), .m_axi_bready(bready)
  );

  // UART, timer and exit.
  reg [9:0] shift;                     // the bits to send, the lowest first; ones after them
  reg [3:0] bits_left;
  reg [15:0] clocks_left;
  reg [31:0] cycles, alarm;
  reg armed;
  wire [2:0] device = mem_addr[4:2];
  wire device_ready = mem_valid && in_devices && (device != 0 || !writes || bits_left == 0);
  assign uart_tx = shift[0];
  assign alarm_irq = armed && alarm == 0;

  always @(posedge clk) begin
    cycles <= cycles + 1;
    if (alarm != 0) alarm <= alarm - 1;
    if (bits_left != 0) begin
      clocks_left <= clocks_left - 1'b1;
      if (clocks_left == 0) begin
        shift <= {1'b1, shift[9:1]};
        bits_left <= bits_left - 1'b1;
        clocks_left <= CLOCKS_PER_BIT - 1;
      end
    end
    if (device_ready && writes)
      case (device)
        0: begin
          shift <= {1'b1, mem_wdata[7:0], 1'b0};
          bits_left <= 10;
          clocks_left <= CLOCKS_PER_BIT - 1;
        end
        1: ;
        2: begin
          alarm <= mem_wdata;
          armed <= mem_wdata != 0;
        end
        3: begin
          halted <= 1;
          exit_status <= mem_wdata[7:0];
        end
        4: stopped <= mem_wdata[0];
        default: ;
      endcase
    if (rst) begin
      cycles <= 0;
      shift <= 10'h3ff;
      bits_left <= 0;
      armed <= 0;
      alarm <= 0;
      halted <= 0;
      exit_status <= 0;
      stopped <= 0;
    end
  end

  assign mem_ready = (mem_valid && in_ram) || device_ready || core_ready;
  assign mem_rdata = in_ram ? ram_word : in_core ? s_rdata : device == 1 ? cycles : 32'd0;
endmodule

`default_nettype wire
