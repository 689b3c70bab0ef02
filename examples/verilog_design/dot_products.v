// Use of a generated tile inside another design: memories supply its operands, and its results are an AXI4-Stream.
//
//   tensordash generate tile.toml --name my_tile -o my_tile
//   iverilog -g2005 -o bench dot_products_tb.v dot_products.v my_tile/my_tile.v && vvp -n bench

`default_nettype none

// Sends the steps of one operand, once after reset. A beat has 4 steps of 4 int8 values, the oldest in the lowest bits.
module step_source #(
  parameter STEPS = 18
) (
  input wire clk,
  input wire rst,
  output wire [127:0] tdata,
  output wire [15:0] tkeep,
  output wire tlast,
  output wire tvalid,
  input wire tready
);
  localparam BEATS = (STEPS + 3) / 4;
  localparam LAST_STEPS = STEPS - 4 * (BEATS - 1);
  localparam [15:0] LAST_TKEEP = (1 << 4 * LAST_STEPS) - 1;  // a step has 4 bytes

  reg [31:0] steps [0:4 * BEATS - 1];  // written by the testbench
  reg [15:0] beat;  // the next beat to send

  assign tvalid = beat < BEATS;  // must not wait for tready
  assign tlast = beat == BEATS - 1;
  assign tkeep = tlast ? LAST_TKEEP : 16'hffff;
  assign tdata = {steps[4 * beat + 3], steps[4 * beat + 2], steps[4 * beat + 1], steps[4 * beat]};

  always @(posedge clk)
    if (rst)
      beat <= 0;
    else if (tvalid && tready)
      beat <= beat + 1;
endmodule

// Multiplies each row of B by each column of A. A beat of results has both columns of a row.
module dot_products #(
  parameter STEPS = 18
) (
  input wire clk,
  input wire rst,
  output wire [63:0] result,
  output wire result_last,
  output wire result_valid,
  input wire result_ready,
  output wire [31:0] cycles,
  output wire protocol_error
);
  wire [127:0] a_0_tdata, a_1_tdata, b_0_tdata, b_1_tdata;
  wire [15:0] a_0_tkeep, a_1_tkeep, b_0_tkeep, b_1_tkeep;
  wire a_0_tlast, a_1_tlast, b_0_tlast, b_1_tlast;
  wire a_0_tvalid, a_1_tvalid, b_0_tvalid, b_1_tvalid;
  wire a_0_tready, a_1_tready, b_0_tready, b_1_tready;

  step_source #(STEPS) a_0(clk, rst, a_0_tdata, a_0_tkeep, a_0_tlast, a_0_tvalid, a_0_tready);
  step_source #(STEPS) a_1(clk, rst, a_1_tdata, a_1_tkeep, a_1_tlast, a_1_tvalid, a_1_tready);
  step_source #(STEPS) b_0(clk, rst, b_0_tdata, b_0_tkeep, b_0_tlast, b_0_tvalid, b_0_tready);
  step_source #(STEPS) b_1(clk, rst, b_1_tdata, b_1_tkeep, b_1_tlast, b_1_tvalid, b_1_tready);

  my_tile_axi_stream_tile tile (
    .clk(clk),
    .rst(rst),
    .s_axis_a0_tdata(a_0_tdata), .s_axis_a0_tkeep(a_0_tkeep), .s_axis_a0_tlast(a_0_tlast),
    .s_axis_a0_tvalid(a_0_tvalid), .s_axis_a0_tready(a_0_tready),
    .s_axis_a1_tdata(a_1_tdata), .s_axis_a1_tkeep(a_1_tkeep), .s_axis_a1_tlast(a_1_tlast),
    .s_axis_a1_tvalid(a_1_tvalid), .s_axis_a1_tready(a_1_tready),
    .s_axis_b0_tdata(b_0_tdata), .s_axis_b0_tkeep(b_0_tkeep), .s_axis_b0_tlast(b_0_tlast),
    .s_axis_b0_tvalid(b_0_tvalid), .s_axis_b0_tready(b_0_tready),
    .s_axis_b1_tdata(b_1_tdata), .s_axis_b1_tkeep(b_1_tkeep), .s_axis_b1_tlast(b_1_tlast),
    .s_axis_b1_tvalid(b_1_tvalid), .s_axis_b1_tready(b_1_tready),
    .m_axis_tdata(result), .m_axis_tlast(result_last),
    .m_axis_tvalid(result_valid), .m_axis_tready(result_ready),
    .cycles(cycles), .steps(), .effectual(), .stall_input(), .stall_output(), .input_limited(), .row_wait(),
    .protocol_error(protocol_error), .non_finite(), .overflow(), .result_non_finite(), .idle(), .clear(1'b0)
  );
endmodule

`default_nettype wire
