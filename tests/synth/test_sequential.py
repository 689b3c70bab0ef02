"""Test equivalence from reset, on differences that runs can show and on differences that they cannot show."""

import pytest

from tensordash_synth.sequential import same_runs

PORTS = "input clk, input rst, input go, input [3:0] a, output [3:0] y, output out_valid, output [3:0] out_payload"
COUNTER = """
reg [2:0] n; reg [3:0] kept, shown; reg full;
assign y = n == 3'd5 ? {there} : n == 3'd6 ? {never} : {{1'b0, n}};
assign out_valid = full; assign out_payload = shown;
always @(posedge clk) begin
  if (go) n <= n == 3'd5 ? 3'd0 : n + 3'd1;
  if (n == 3'd0) kept <= {loaded};
  full <= go; if (go) shown <= a; else shown <= {idle};
  if (rst) begin n <= {reset}; full <= 1'b0; end
end
"""


def counter(**changed):
    """Return a counter from 0 to 5, whose register of four bits has no reset."""
    parts = {"there": "kept", "never": "4'd6", "loaded": "4'd9", "idle": "shown", "reset": "3'd0"} | changed
    return f"module m({PORTS});\n{COUNTER.format(**parts)}\nendmodule\n"


def is_equivalent(one, other, folder):
    return same_runs(one, other, "m", folder)


@pytest.mark.parametrize(
    ("changed", "equal"),
    [
        ({"never": "a"}, True),  # a state that is never reached
        ({"there": "kept ^ 4'd1"}, False),  # a state that is reached after five cycles
        ({"there": "kept | 4'd9"}, True),  # its value at that time
        ({"idle": "~a"}, True),  # a payload without `valid` is not used
        ({"idle": "shown ^ {3'd0, full}"}, True),
        # a register with any first value
        ({"loaded": "kept"}, False),
        ({"loaded": "kept & 4'd9"}, False),
        # The reset is missing or has another value.
        ({"reset": "n"}, False),
        ({"reset": "3'd5"}, False),
        ({"reset": "n & 3'd0"}, True),
    ],
)
def test_runs_that_differ_are_found_and_no_others(changed, equal, tmp_path):
    assert is_equivalent(counter(), counter(**changed), tmp_path) is equal


def test_payloads_are_compared_while_valid(tmp_path):
    wrong = counter().replace("shown <= a;", "shown <= a ^ {3'd0, n == 3'd4};")
    assert is_equivalent(counter(), wrong, tmp_path) is False
    assert is_equivalent(counter(), counter().replace("full <= go", "full <= go & n[0]"), tmp_path) is False


def test_merged_registers_are_equivalent(tmp_path):
    """The module only adds the bits, so their order does not matter."""
    adds = "module m(input clk, input rst, input a, input b, output [1:0] y);\nreg p, q; assign y = p + q;\n"
    one = f"{adds}always @(posedge clk) begin p <= a; q <= b; end\nendmodule\n"
    assert is_equivalent(one, one.replace("p <= a; q <= b", "p <= b; q <= a"), tmp_path)
    assert is_equivalent(one, one.replace("p <= a; q <= b", "p <= b; q <= b"), tmp_path) is False


@pytest.mark.parametrize("value", ["1'b0", "1'b1"])
def test_constant_outputs_are_equivalent(value, tmp_path):
    ports = "module m(input clk, input rst, output y); reg q; always @(posedge clk) q <= rst ? {} : q; assign y = {};"
    one = ports.format(value, "q") + "\nendmodule\n"
    assert is_equivalent(one, ports.format(value, value) + "\nendmodule\n", tmp_path)
    assert is_equivalent(one, ports.format(value, f"~{value}") + "\nendmodule\n", tmp_path) is False
