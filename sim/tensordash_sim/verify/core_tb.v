// Self-checking testbench of @TOP@, in plain Verilog-2005. In the folder of this file, run:
//
//   $ iverilog -o bench @TOP@_tb.v @PREFIX@.v @PREFIX@_memories.v@MORE@ && vvp -n bench
//   $ verilator --binary -CFLAGS -std=c++20 --top-module @TOP@_tb @PREFIX@.vlt @TOP@_tb.v -f @PREFIX@.f
//   $ obj_dir/V@TOP@_tb
//
// It executes a program of @DESCRIPTORS@ descriptors@WHERE@ (seed @SEED@): @TITLE@.
// The .hex files have memory before the run, and memory after it as the golden model computes it.
// In the first run, memory responds at once. In the second run, after a soft reset, it responds late and with pauses.

module @TOP@_tb;

  localparam DATA = @DATA@;            // bits of a beat of memory
  localparam BYTES = DATA / 8;
  localparam ADDRESS = @ADDRESS@;      // bits of an address
  localparam BEATS = @BEATS@;          // beats in memory, which starts at address 0
  localparam DESCRIPTORS = @DESCRIPTORS@;
  localparam LOG2_PLACES = @LOG2_PLACES@;     // places of a ring of descriptors, as a power of two
  localparam CORES = @CORES@;
  localparam RING = @RING@;             // address of the first core's ring
  localparam STRIDE = @STRIDE@;        // bytes from one core's ring to the next
  localparam SHARED = @SHARED@;           // bytes of shared operands, from address 0 on
  localparam REGISTER_BITS = @REGISTER_BITS@;   // bits of a register's address
  localparam ID_BITS = @ID_BITS@;         // bits of an ID on the memory bus
  localparam LIMIT = @LIMIT@;          // maximum cycles of a program

  // Offsets of registers; see @HEADERS@.
@REGISTERS@

  reg [DATA-1:0] before_file [0:BEATS-1];
  reg [DATA-1:0] after_file [0:BEATS-1];
  reg [DATA-1:0] memory [0:BEATS-1];

  reg clk = 0;
  reg rst = 1;
  wire [CORES-1:0] irq;

  reg [REGISTER_BITS-1:0] s_axi_awaddr = 0;
  reg s_axi_awvalid = 0;
  wire s_axi_awready;
  reg [31:0] s_axi_wdata = 0;
  reg s_axi_wvalid = 0;
  wire s_axi_wready;
  wire [1:0] s_axi_bresp;
  wire s_axi_bvalid;
  reg s_axi_bready = 0;
  reg [REGISTER_BITS-1:0] s_axi_araddr = 0;
  reg s_axi_arvalid = 0;
  wire s_axi_arready;
  wire [31:0] s_axi_rdata;
  wire [1:0] s_axi_rresp;
  wire s_axi_rvalid;
  reg s_axi_rready = 0;

  wire [ID_BITS-1:0] m_axi_arid;
  wire m_axi_arvalid;
  reg m_axi_arready;
  wire [63:0] m_axi_araddr;
  wire [7:0] m_axi_arlen;
  reg [ID_BITS-1:0] m_axi_rid;
  reg m_axi_rlast, m_axi_rvalid;
  wire m_axi_rready;
  reg [DATA-1:0] m_axi_rdata;
  reg [1:0] m_axi_rresp;
  wire [ID_BITS-1:0] m_axi_awid;
  wire m_axi_awvalid;
  reg m_axi_awready;
  wire [63:0] m_axi_awaddr;
  wire [7:0] m_axi_awlen;
  wire [DATA-1:0] m_axi_wdata;
  wire [BYTES-1:0] m_axi_wstrb;
  wire m_axi_wlast, m_axi_wvalid;
  reg m_axi_wready;
  reg [ID_BITS-1:0] m_axi_bid;
  reg m_axi_bvalid;
  reg [1:0] m_axi_bresp;
  wire m_axi_bready;

  @TOP@ dut (
    .clk(clk), .rst(rst), .irq(irq),
    .s_axi_awaddr(s_axi_awaddr), .s_axi_awprot(3'd0), .s_axi_awvalid(s_axi_awvalid), .s_axi_awready(s_axi_awready),
    .s_axi_wdata(s_axi_wdata), .s_axi_wstrb(4'd15), .s_axi_wvalid(s_axi_wvalid), .s_axi_wready(s_axi_wready),
    .s_axi_bresp(s_axi_bresp), .s_axi_bvalid(s_axi_bvalid), .s_axi_bready(s_axi_bready),
    .s_axi_araddr(s_axi_araddr), .s_axi_arprot(3'd0), .s_axi_arvalid(s_axi_arvalid), .s_axi_arready(s_axi_arready),
    .s_axi_rdata(s_axi_rdata), .s_axi_rresp(s_axi_rresp), .s_axi_rvalid(s_axi_rvalid), .s_axi_rready(s_axi_rready),
    .m_axi_arid(m_axi_arid), .m_axi_araddr(m_axi_araddr[ADDRESS-1:0]), .m_axi_arlen(m_axi_arlen), .m_axi_arvalid(m_axi_arvalid),
    .m_axi_arready(m_axi_arready), .m_axi_arsize(), .m_axi_arburst(), .m_axi_arlock(), .m_axi_arcache(),
    .m_axi_arprot(), .m_axi_arqos(),
    .m_axi_rid(m_axi_rid), .m_axi_rdata(m_axi_rdata), .m_axi_rresp(m_axi_rresp), .m_axi_rlast(m_axi_rlast),
    .m_axi_rvalid(m_axi_rvalid), .m_axi_rready(m_axi_rready),
    .m_axi_awid(m_axi_awid), .m_axi_awaddr(m_axi_awaddr[ADDRESS-1:0]), .m_axi_awlen(m_axi_awlen), .m_axi_awvalid(m_axi_awvalid),
    .m_axi_awready(m_axi_awready), .m_axi_awsize(), .m_axi_awburst(), .m_axi_awlock(), .m_axi_awcache(),
    .m_axi_awprot(), .m_axi_awqos(),
    .m_axi_wdata(m_axi_wdata), .m_axi_wstrb(m_axi_wstrb), .m_axi_wlast(m_axi_wlast), .m_axi_wvalid(m_axi_wvalid),
    .m_axi_wready(m_axi_wready),
    .m_axi_bid(m_axi_bid), .m_axi_bresp(m_axi_bresp), .m_axi_bvalid(m_axi_bvalid), .m_axi_bready(m_axi_bready)
  );

  generate
    if (ADDRESS < 64) begin : high_bits
      assign m_axi_araddr[63:ADDRESS] = 0;
      assign m_axi_awaddr[63:ADDRESS] = 0;
    end
  endgenerate

  always #5 clk = ~clk;

  reg gaps = 0;
  integer seed = @SEED@;
  integer errors = 0;
  integer compared = 0;
  integer cycles = 0;                  // of the first run

  // True in one call out of three if `gaps` is 1, else never.
  function pause(input dummy);
    pause = gaps && ($random(seed) & 255) < 85;
  endfunction

  task fail(input [8*24-1:0] what, input [63:0] found, input [63:0] expected);
    begin
      errors = errors + 1;
      if (errors <= 10) $display("%0t: %0s is %h, expected %h", $time, what, found, expected);
    end
  endtask

  // Memory. Two rings hold the accepted addresses. Bursts are served in order, with pauses if `gaps` is 1.
  // Outputs of the core are sampled at the clock edge; its inputs change after the edge.
  reg [63:0] read_address [0:63];
  integer read_length [0:63];
  reg [ID_BITS-1:0] read_id [0:63];
  integer read_in, read_out, read_beat;
  reg [63:0] write_address [0:63];
  integer write_length [0:63];
  reg [ID_BITS-1:0] write_id [0:63];
  integer write_in, write_out, write_beat;
  reg last;
  integer answered_out;                // writes with a response
  integer read_bursts, write_bursts, shared_beats;
  reg [63:0] beat_address;
  integer i, place;                    // `place`: index of a beat in memory

  function in_memory(input [63:0] address);
    in_memory = address / BYTES < BEATS;
  endfunction

  task drop_transactions;
    begin
      read_in = 0;
      read_out = 0;
      read_beat = 0;
      write_in = 0;
      write_out = 0;
      write_beat = 0;
      answered_out = 0;
    end
  endtask

  always @(posedge clk) begin
    if (rst) begin
      drop_transactions;
      m_axi_arready <= 0;
      m_axi_rvalid <= 0;
      m_axi_awready <= 0;
      m_axi_wready <= 0;
      m_axi_bvalid <= 0;
    end else begin
      if (m_axi_arvalid && m_axi_arready) begin
        read_address[read_in % 64] = m_axi_araddr;
        read_length[read_in % 64] = {24'd0, m_axi_arlen};
        read_id[read_in % 64] = m_axi_arid;
        read_in = read_in + 1;
        read_bursts = read_bursts + 1;
        if (m_axi_araddr < SHARED) shared_beats = shared_beats + {24'd0, m_axi_arlen} + 1;
        if (m_axi_araddr % BYTES != 0) fail("a burst's address", m_axi_araddr, 0);
      end
      m_axi_arready <= read_in - read_out < 63 && !pause(0);
      if (!m_axi_rvalid || m_axi_rready) begin
        m_axi_rvalid <= 0;
        if (read_out != read_in && !pause(0)) begin
          beat_address = read_address[read_out % 64] + {32'd0, read_beat * BYTES};
          place = beat_address[31:0] / BYTES;
          m_axi_rvalid <= 1;
          m_axi_rid <= read_id[read_out % 64];
          m_axi_rdata <= in_memory(beat_address) ? memory[place] : 0;
          m_axi_rresp <= in_memory(beat_address) ? 0 : 2;
          m_axi_rlast <= read_beat == read_length[read_out % 64];
          if (read_beat == read_length[read_out % 64]) begin
            read_out = read_out + 1;
            read_beat = 0;
          end else read_beat = read_beat + 1;
        end
      end

      if (m_axi_awvalid && m_axi_awready) begin
        write_address[write_in % 64] = m_axi_awaddr;
        write_length[write_in % 64] = {24'd0, m_axi_awlen};
        write_id[write_in % 64] = m_axi_awid;
        write_in = write_in + 1;
        write_bursts = write_bursts + 1;
        if (m_axi_awaddr % BYTES != 0) fail("a burst's address", m_axi_awaddr, 0);
      end
      m_axi_awready <= write_in - answered_out < 63 && !pause(0);
      if (m_axi_wvalid && m_axi_wready) begin
        // Data are accepted only after their address.
        beat_address = write_address[write_out % 64] + {32'd0, write_beat * BYTES};
        place = beat_address[31:0] / BYTES;
        if (!in_memory(beat_address)) fail("an address", beat_address, 0);
        else
          for (i = 0; i < BYTES; i = i + 1)
            if (m_axi_wstrb[i]) memory[place][8*i +: 8] = m_axi_wdata[8*i +: 8];
        last = write_beat == write_length[write_out % 64];
        if (m_axi_wlast !== last) fail("wlast", {63'd0, m_axi_wlast}, {63'd0, last});
        if (last) begin
          write_out = write_out + 1;
          write_beat = 0;
        end else write_beat = write_beat + 1;
      end
      m_axi_wready <= write_out != write_in && !pause(0);
      if (m_axi_bvalid && m_axi_bready) answered_out = answered_out + 1;
      if (!m_axi_bvalid || m_axi_bready) begin
        m_axi_bvalid <= answered_out != write_out && !pause(0);
        m_axi_bid <= write_id[answered_out % 64];
        m_axi_bresp <= 0;
      end
    end
  end

  // Registers. From here on, tasks drive inputs at the falling clock edge. The core samples them at the rising edge.
  reg address_taken, data_taken, answered;
  task write_register(input integer address, input [31:0] data);
    begin
      s_axi_awaddr = address[REGISTER_BITS-1:0];
      s_axi_awvalid = 1;
      s_axi_wdata = data;
      s_axi_wvalid = 1;
      s_axi_bready = 1;
      answered = 0;
      while (!answered) begin
        #1;
        address_taken = s_axi_awready;
        data_taken = s_axi_wready;
        answered = s_axi_bvalid;
        @(negedge clk);
        if (address_taken) s_axi_awvalid = 0;
        if (data_taken) s_axi_wvalid = 0;
      end
      s_axi_bready = 0;
    end
  endtask

  reg [31:0] value;
  task read_register(input integer address);
    begin
      s_axi_araddr = address[REGISTER_BITS-1:0];
      s_axi_arvalid = 1;
      s_axi_rready = 1;
      answered = 0;
      while (!answered) begin
        #1;
        address_taken = s_axi_arready;
        answered = s_axi_rvalid;
        value = s_axi_rdata;
        @(negedge clk);
        if (address_taken) s_axi_arvalid = 0;
      end
      s_axi_rready = 0;
    end
  endtask

  task check_register(input [8*24-1:0] name, input integer address, input [31:0] expected);
    begin
      read_register(address);
      if (value !== expected) fail(name, {32'd0, value}, {32'd0, expected});
    end
  endtask

  // Run the programs, and compare memory after them.
  integer beat, limit, core, at;       // `at`: address of a core's registers
  reg [CORES-1:0] later;               // interrupts of the cores after this one
  task run(input in_gaps);
    begin
      gaps = in_gaps;
      shared_beats = 0;
      for (beat = 0; beat < BEATS; beat = beat + 1) memory[beat] = before_file[beat];
@     write_register(SHARED_BASE, 0);
@     write_register(SHARED_BASE_HIGH, 0);
@     write_register(SHARED_LIMIT, SHARED - 1);
@     write_register(SHARED_LIMIT_HIGH, 0);
@     write_register(PATIENCE, 65535);
      for (core = 0; core < CORES; core = core + 1) begin
        at = 4096 * core;
        write_register(at + QUEUE_BASE, RING + STRIDE * core);
        write_register(at + QUEUE_BASE_HIGH, 0);
        write_register(at + QUEUE_SIZE, LOG2_PLACES);
        write_register(at + INTERRUPT_ENABLE, 3);
        write_register(at + CONTROL, 1);
      end
      if (irq !== 0) fail("irq", {{64-CORES{1'b0}}, irq}, 0);
      for (core = 0; core < CORES; core = core + 1) write_register(4096 * core + TAIL, DESCRIPTORS);
      limit = LIMIT;
      while (irq !== {CORES{1'b1}} && limit > 0) begin
        @(negedge clk);
        limit = limit - 1;
      end
      if (limit == 0) begin
        $display("%0t: no interrupt in %0d cycles", $time, LIMIT);
        errors = errors + 1;
      end
      if (!in_gaps) cycles = LIMIT - limit;
      for (core = 0; core < CORES; core = core + 1) begin
        at = 4096 * core;
        check_register("done", at + DONE, DESCRIPTORS);
        check_register("error", at + ERROR, 0);
        check_register("cause", at + CAUSE, 1);
        check_register("status", at + STATUS, 0);
        write_register(at + CAUSE, 1);
        later = {CORES{1'b1}} << (core + 1);
        if (irq !== later) fail("irq", {{64-CORES{1'b0}}, irq}, {{64-CORES{1'b0}}, later});
      end
@     check_register("patience", PATIENCE, 65535);
@     if (shared_beats != SHARED / BYTES) fail("shared beats", {32'd0, shared_beats}, SHARED / BYTES);
      for (beat = 0; beat < BEATS; beat = beat + 1) begin
        compared = compared + BYTES;
        if (memory[beat] !== after_file[beat]) begin
          errors = errors + 1;
          if (errors <= 10)
            $display("%0t: memory at %h is %h, expected %h", $time, beat * BYTES, memory[beat], after_file[beat]);
        end
      end
    end
  endtask

  initial begin
    read_bursts = 0;
    write_bursts = 0;
    $readmemh("@TOP@_tb_before.hex", before_file);
    $readmemh("@TOP@_tb_after.hex", after_file);
    repeat (3) @(negedge clk);
    rst = 0;
    @(negedge clk);
    for (core = 0; core < CORES; core = core + 1) begin
      at = 4096 * core;
      check_register("identity", at + IDENTITY, 32'h@IDENTITY@);
      check_register("digest", at + DIGEST, 32'h@DIGEST_LOW@);
      check_register("digest_high", at + DIGEST_HIGH, 32'h@DIGEST_HIGH@);
    end
    run(0);

    // Soft reset, then the second run.
    for (core = 0; core < CORES; core = core + 1) begin
      at = 4096 * core;
      write_register(at + CONTROL, 2);
      limit = 1000;
      value = 2;
      while (value[1] && limit > 0) begin
        read_register(at + STATUS);
        limit = limit - 1;
      end
      check_register("head", at + HEAD, 0);
    end
    run(1);

    if (errors == 0)
      $display("PASS: %0d descriptors in %0d cycles, %0d bytes compared, %0d bursts read and %0d written (seed %0d)",
        CORES * DESCRIPTORS, cycles, compared, read_bursts, write_bursts, @SEED@);
    else begin
      $display("FAIL: %0d errors (seed %0d)", errors, @SEED@);
      $fatal(1);
    end
    $finish;
  end

endmodule
