"""A shell around a design for an FPGA: three pins reach thousands of ports, and each port has a register."""

from collections.abc import Mapping
from typing import Any

__all__ = ["SHELL", "shell"]

SHELL = "tensordash_fpga"


def shell(top: str, ports: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Verilog of a module with pins `clk`, `data_in` and `data_out` around an instance `dut` of a design.

    A shift register drives the design's inputs. Registers sample its outputs and are folded into one bit. Therefore
    every path of the design runs from register to register, and no logic is optimised away.

    Parameters
    ----------
    top : str
        The design's module.
    ports : mapping
        Direction and width of each of its ports, `clk` included, as `tensordash.emission.library.ports` returns them.

    Examples
    --------
    >>> print(shell("m", {"clk": {"direction": "input", "width": 1}, "a": {"direction": "input", "width": 2},
    ...                   "b": {"direction": "output", "width": 1}}))
    module tensordash_fpga(input clk, input data_in, output data_out);
      reg [1:0] entering;
      wire [0:0] leaving;
      reg [0:0] held, folded;
      always @(posedge clk) begin
        entering <= {entering, data_in};
        held <= leaving;
        folded <= held ^ {folded, 1'b0};
      end
      assign data_out = folded[0];
      m dut(.clk(clk), .a(entering[1:0]), .b(leaving[0:0]));
    endmodule
    <BLANKLINE>
    """
    names = {"input": "entering", "output": "leaving"}
    bits = dict.fromkeys(names, 0)
    pins = []
    for name, port in ports.items():
        if name == "clk":
            pins.append(".clk(clk)")
            continue
        direction = port["direction"]
        low, bits[direction] = bits[direction], bits[direction] + port["width"]
        pins.append(f".{name}({names[direction]}[{bits[direction] - 1}:{low}])")
    return "\n".join(
        [
            f"module {SHELL}(input clk, input data_in, output data_out);",
            f"  reg [{bits['input'] - 1}:0] entering;",
            f"  wire [{bits['output'] - 1}:0] leaving;",
            f"  reg [{bits['output'] - 1}:0] held, folded;",
            "  always @(posedge clk) begin",
            "    entering <= {entering, data_in};",
            "    held <= leaving;",
            "    folded <= held ^ {folded, 1'b0};",
            "  end",
            f"  assign data_out = folded[{bits['output'] - 1}];",
            f"  {top} dut({', '.join(pins)});",
            "endmodule",
            "",
        ]
    )
