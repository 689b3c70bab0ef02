// Writes random operands into the memories of `dot_products`, and compares its results with expected ones.

module dot_products_tb;
  localparam STEPS = 18;

  reg clk = 0;
  reg rst = 1;
  wire [63:0] result;
  wire result_last, result_valid, protocol_error;
  wire [31:0] cycles;

  dot_products #(STEPS) dut (
    .clk(clk), .rst(rst), .result(result), .result_last(result_last), .result_valid(result_valid),
    .result_ready(1'b1), .cycles(cycles), .protocol_error(protocol_error)
  );

  always #5 clk = ~clk;

  integer seed = 1;
  integer step, lane, a_0, a_1, b_0, b_1;
  integer expected [0:3];

  // An integer from -9 to 9.
  function integer random_value(input integer unused);
    random_value = $random(seed) % 10;
  endfunction

  // A value of B: zero with probability 2/3.
  function integer sparse_value(input integer unused);
    sparse_value = $random(seed) % 3 == 0 ? $random(seed) % 10 : 0;
  endfunction

  initial begin
    for (lane = 0; lane < 4; lane = lane + 1)
      expected[lane] = 0;
    for (step = 0; step < STEPS; step = step + 1)
      for (lane = 0; lane < 4; lane = lane + 1) begin
        a_0 = random_value(0);
        a_1 = random_value(0);
        b_0 = sparse_value(0);
        b_1 = sparse_value(0);
        dut.a_0.steps[step][8 * lane +: 8] = a_0;
        dut.a_1.steps[step][8 * lane +: 8] = a_1;
        dut.b_0.steps[step][8 * lane +: 8] = b_0;
        dut.b_1.steps[step][8 * lane +: 8] = b_1;
        expected[0] = expected[0] + a_0 * b_0;
        expected[1] = expected[1] + a_1 * b_0;
        expected[2] = expected[2] + a_0 * b_1;
        expected[3] = expected[3] + a_1 * b_1;
      end
    repeat (2) @(negedge clk);
    rst = 0;
  end

  integer row = 0;

  always @(posedge clk)
    if (!rst && result_valid) begin
      $display("row %0d: %0d %0d", row, $signed(result[31:0]), $signed(result[63:32]));
      if (result !== {expected[2 * row + 1], expected[2 * row]} || result_last !== (row == 1) || protocol_error) begin
        $display("FAIL: expected %0d %0d", expected[2 * row], expected[2 * row + 1]);
        $finish;
      end
      if (result_last) begin
        $display("PASS: %0d dense steps in %0d cycles", STEPS, cycles);
        $finish;
      end
      row = row + 1;
    end

  initial begin
    #10000 $display("FAIL: no results");
    $finish;
  end
endmodule
