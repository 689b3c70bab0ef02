// The system on the board ULX3S with an LFE5U-85F: its 25 MHz clock, and the UART at 115200 bits per second on USB.
module soc_ulx3s (
  input wire clk_25mhz,
  input wire btn_pwr_n,                // low while pressed: resets the system
  output wire ftdi_rxd,
  output wire [1:0] led                // lit: 0, the firmware has exited with status 0; 1, it has failed
);
  reg [3:0] running = 0;               // configuration sets it, so that the system begins in reset
  always @(posedge clk_25mhz) running <= {running[2:0], btn_pwr_n};

  wire halted, trap;
  wire [7:0] exit_status;
  soc #(.CLOCKS_PER_BIT(217)) dut (
    .clk(clk_25mhz), .rst(!running[3]), .uart_tx(ftdi_rxd), .halted(halted), .exit_status(exit_status), .trap(trap)
  );
  assign led = {trap || (halted && exit_status != 0), halted && exit_status == 0};
endmodule
