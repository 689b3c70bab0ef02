// Runs the system until its firmware exits, and prints what the UART sends.
module soc_tb;
  localparam CLOCKS_PER_BIT = 4;

  reg clk = 0;
  reg rst = 1;
  wire uart_tx, halted, trap;
  wire [7:0] exit_status;

  soc #(.CLOCKS_PER_BIT(CLOCKS_PER_BIT), .STOP_CORE_CLOCK(1)) dut (
    .clk(clk), .rst(rst), .uart_tx(uart_tx), .halted(halted), .exit_status(exit_status), .trap(trap)
  );

  always #1 clk = ~clk;

  // Each bit is sampled in its middle.
  reg [7:0] received;
  integer phase = -1;                  // clocks since the start bit; -1: none
  integer cycles = 0;
  integer limit;

  initial if (!$value$plusargs("cycles=%d", limit)) limit = 0;

  always @(posedge clk) begin
    cycles <= cycles + 1;
    rst <= cycles < 4;
    if (phase < 0) begin
      if (!uart_tx && !rst) phase <= 1;
    end else begin
      phase <= phase + 1;
      if (phase % CLOCKS_PER_BIT == CLOCKS_PER_BIT / 2 && phase > CLOCKS_PER_BIT)
        received <= {uart_tx, received[7:1]};
      if (phase == 9 * CLOCKS_PER_BIT + 1) begin
        $write("%c", received);
        if (received == "\n") $fflush;
        phase <= -1;
      end
    end
    if (halted && phase < 0 && uart_tx) begin
      $display("exit %0d after %0d cycles", exit_status, cycles);
      if (exit_status != 0) $fatal(1);
      $finish(0);
    end
    if (trap) begin
      $display("the processor has stopped at an illegal instruction or access");
      $fatal(1);
    end
    if (limit != 0 && cycles == limit) begin
      $display("no exit after %0d cycles", cycles);
      $fatal(1);
    end
  end
endmodule
