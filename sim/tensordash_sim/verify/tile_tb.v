// Self-checking testbench of @PREFIX@_tile, in plain Verilog-2005. In the folder of this file, run:
//
//   $ iverilog -o bench @PREFIX@_tile_tb.v @PREFIX@.v && vvp -n bench
//   $ verilator --binary -CFLAGS -std=c++20 --top-module @PREFIX@_tile_tb @PREFIX@.vlt @PREFIX@_tile_tb.v @PREFIX@.v
//   $ obj_dir/V@PREFIX@_tile_tb
//
// It plays @STREAMS@ streams of random operands (seed @SEED@).
// It compares results and counters with those of the golden model. The .hex files have operands and results.
// The first run has full rate. The second run has gaps between steps and back-pressure, and a reset half way.
// The third run has gaps and back-pressure, too, and plays all streams.

module @PREFIX@_tile_tb;

  localparam COLUMNS = @COLUMNS@;
  localparam ROWS = @ROWS@;
  localparam DEPTH = @DEPTH@;          // maximum steps that a port offers
  localparam A_STEP = @A_STEP@;        // bits of a step of side A, for a column
  localparam B_STEP = @B_STEP@;        // bits of a step of side B, for a row
@SCALE_BITS@  localparam COUNT = @COUNT@;          // bits of `available` and `taken`
  localparam BEAT = @BEAT@;            // bits of a beat of results, including `last`
  localparam STEPS = @STEPS@;          // steps of all streams
  localparam BEATS = @BEATS@;          // beats of results
  localparam GAPS = @GAPS@;            // 0 if this tile's results depend on when operands arrive

  // Steps in order, one per line; the last column or row is in the highest bits.
  reg [COLUMNS*@A_WORD@-1:0] a_file [0:STEPS-1];
  reg [ROWS*@B_WORD@-1:0] b_file [0:STEPS-1];
  reg ends_file [0:STEPS-1];           // whether the step ends its stream
  reg [BEAT-1:0] out_file [0:BEATS-1];
@C_FILE@  reg clk = 0;
  reg rst = 1;
  reg clear = 0;
  reg [COLUMNS*DEPTH*A_STEP-1:0] a_steps;
@A_SCALES@  reg [COLUMNS*COUNT-1:0] a_available;
  reg [COLUMNS-1:0] a_last;
  reg [ROWS*DEPTH*B_STEP-1:0] b_steps;
@B_SCALES@  reg [ROWS*COUNT-1:0] b_available;
  reg [ROWS-1:0] b_last;
  wire [COUNT-1:0] taken;
  wire out_valid;
  reg out_ready;
  wire [BEAT-1:0] out_payload;
@COUNTER_WIRES@  wire protocol_error, non_finite, overflow, result_non_finite, idle;

  @PREFIX@_tile dut (
    .clk(clk), .rst(rst), .clear(clear),
@PORTS@
    .out_valid(out_valid), .out_ready(out_ready), .out_payload(out_payload),
@COUNTERS@
    .protocol_error(protocol_error), .non_finite(non_finite), .overflow(overflow), .result_non_finite(result_non_finite),
    .idle(idle)
  );

  always #5 clk = ~clk;

  // Return the line of a port for step number `step` since reset, which is `slot` steps after the next one.
  function integer place(input integer step, input integer slot);
    place = @PLACE@;
  endfunction

  reg gaps = 0;
  integer seed = @SEED@;
  integer next;                        // next step to be accepted
  integer beat;                        // next beat of results
  integer compared = 0;
  integer errors = 0;

  // True in one call out of three if `gaps` is 1, else never.
  function pause(input dummy);
    pause = gaps && ($random(seed) & 255) < 85;
  endfunction

  // Return the number of steps that a port offers: all, or a random number in a pause.
  function integer offered(input integer pending);
    offered = pause(0) ? ($random(seed) & 65535) % (pending + 1) : pending;
  endfunction

  // Steps beyond `available` are undefined. Drive ones, which are NaN in floating-point formats.
  task offer;
    integer pending, port, slot, count;
    begin
      pending = 0;
      for (slot = 0; slot < DEPTH; slot = slot + 1)
        if (pending == slot && next + slot < STEPS && !(slot > 0 && ends_file[next + slot - 1])) pending = slot + 1;
      a_steps <= {COLUMNS*DEPTH*A_STEP{1'b1}};
      b_steps <= {ROWS*DEPTH*B_STEP{1'b1}};
@ANY_SCALES@      for (port = 0; port < COLUMNS; port = port + 1) begin
        count = offered(pending);
        a_available[port*COUNT +: COUNT] <= count[COUNT-1:0];
        a_last[port] <= count > 0 && ends_file[next + count - 1];
        for (slot = 0; slot < count; slot = slot + 1)
          a_steps[(port*DEPTH + place(next + slot, slot))*A_STEP +: A_STEP] <= a_file[next + slot][port*@A_WORD@ +: A_STEP];
@A_SCALE@      end
      for (port = 0; port < ROWS; port = port + 1) begin
        count = offered(pending);
        b_available[port*COUNT +: COUNT] <= count[COUNT-1:0];
        b_last[port] <= count > 0 && ends_file[next + count - 1];
        for (slot = 0; slot < count; slot = slot + 1)
          b_steps[(port*DEPTH + place(next + slot, slot))*B_STEP +: B_STEP] <= b_file[next + slot][port*@B_WORD@ +: B_STEP];
@B_SCALE@      end
    end
  endtask

  task fail(input [BEAT-1:0] found, input [BEAT-1:0] expected);
    begin
      errors = errors + 1;
      if (errors <= 10) $display("%0t: beat %0d is %h, expected %h", $time, beat, found, expected);
    end
  endtask

  // Outputs of the tile are sampled at the clock edge; its inputs change after the edge.
  always @(posedge clk) begin
    if (rst) begin
      next = 0;
      beat = 0;
      a_available <= 0;
      b_available <= 0;
      a_last <= 0;
      b_last <= 0;
      out_ready <= 0;
    end else begin
      next = next + {{32-COUNT{1'b0}}, taken};
      offer;
      if (out_valid && out_ready) begin
        if (beat >= BEATS) fail(out_payload, 0);
        else if (out_payload !== out_file[beat]) fail(out_payload, out_file[beat]);
        compared = compared + 1;
        beat = beat + 1;
      end
      out_ready <= !pause(0);
    end
  end
@C_DRIVER@
  task check(input [8*24-1:0] name, input [31:0] found, input [31:0] expected);
    if (found !== expected) begin
      errors = errors + 1;
      $display("%0t: %0s is %0d, expected %0d", $time, name, found, expected);
    end
  endtask

  // From here on, tasks drive inputs at the falling clock edge.
  task reset(input in_gaps);
    begin
      gaps = in_gaps;
      rst = 1;
      repeat (2) @(negedge clk);
      rst = 0;
    end
  endtask

  // Run until `beats` beats of results are out; after the last one, wait for surplus beats.
  task run(input integer beats);
    integer limit;
    begin
      limit = 1000 + 100 * (STEPS + BEATS);
      while (beat < beats && limit > 0) begin
        @(negedge clk);
        limit = limit - 1;
      end
      if (limit == 0) begin
        $display("%0t: no results: %0d of %0d beats", $time, beat, beats);
        errors = errors + 1;
      end
      if (beats == BEATS) repeat (2 * DEPTH + 10) @(negedge clk);
    end
  endtask

  initial begin
    $readmemh("@PREFIX@_tile_tb_a.hex", a_file);
    $readmemh("@PREFIX@_tile_tb_b.hex", b_file);
    $readmemh("@PREFIX@_tile_tb_ends.hex", ends_file);
    $readmemh("@PREFIX@_tile_tb_out.hex", out_file);
@C_READ@    @(negedge clk);
    reset(0);
    run(BEATS);
@CHECKS@
    clear = 1;
    @(negedge clk);
    clear = 0;
    @(negedge clk);
@CLEARED@
    check("idle", {31'd0, idle}, 1);

    reset(GAPS != 0);
    run(BEATS / 2);

    reset(GAPS != 0);
    run(BEATS);
@COUNTED@
    check("idle", {31'd0, idle}, 1);
    check("protocol_error", {31'd0, protocol_error}, 0);

    if (errors == 0)
      $display("PASS: @STREAMS@ streams of %0d steps, %0d beats compared, %0d cycles of schedules instead of %0d",
        STEPS, compared, @CYCLES@, STEPS);
    else begin
      $display("FAIL: %0d errors", errors);
      $fatal(1);
    end
    $finish;
  end

endmodule
