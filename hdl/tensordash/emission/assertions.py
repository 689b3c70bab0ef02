"""SystemVerilog assertions for both tops: the rules of their ports, which integrators can bind."""

from ..block import Block
from ..configuration.config import TileConfig
from ..streams.axi_stream import AxiStreamTile
from ..tile.flags import FLAGS
from ..tile.status import counter_names
from .library import members

__all__ = ["assertions"]

WIDTH = 118

HEADER = """\
// Rules of the ports of {prefix}_tile and {prefix}_axi_stream_tile.
// Compile this file with {prefix}.v. It binds itself to both. The tile keeps the rules with `assert`, which are proven.
// Its surroundings must keep the rules with `assume`. docs/tile.md defines every port.

// One file has the rules of both tops.
// verilator lint_off DECLFILENAME
"""

MODULE = """\
module {name} (
{ports}
);
  // Nothing is known before the first reset.
  reg known;
  initial known = 1'b0;
  always @(posedge clk) if (rst) known <= 1'b1;
  default clocking @(posedge clk);
  endclocking
  default disable iff (rst || !known);

{rules}
endmodule

bind {top} {name} rules (.*);
"""


class _Rules:
    """The rules of one top as text, and the ports that they read."""

    def __init__(self, block: Block) -> None:
        self.widths = {name: len(value) for name, value, _ in members(block)}
        self.used = {"clk", "rst"}
        self.lines: list[str] = []

    def port(self, name: str) -> str:
        """Return a port's name, and record that a rule reads it."""
        self.used.add(name)
        return name

    def title(self, text: str) -> None:
        """Emit a comment above the following statements."""
        self.lines += ["", f"// {text}"]

    def state(self, *lines: str) -> None:
        """Emit ghost state that rules read."""
        self.lines += lines

    def rule(self, name: str, expression: str, *, kind: str = "assert", always: bool = False) -> None:
        """Emit a property. It holds only outside of reset, unless `always` is set."""
        off = "disable iff (1'b0) " if always else ""
        line = f"{name}: {kind} property ({off}{expression});"
        for implies in (" |=> ", " |-> ") if len(line) > WIDTH else ():
            line = line.replace(implies, f"\n   {implies}", 1)
        self.lines += line.split("\n")

    def stays(self, valid: str, ready: str, payload: list[str], *, kind: str) -> None:
        """Emit the rule that an offered beat does not change until it is taken."""
        offered = f"{self.port(valid)} && !{self.port(ready)}"
        payload_ports = ", ".join(self.port(name) for name in payload)
        self.rule(f"{valid}_stays", f"{offered} |=> {valid} && $stable({{{payload_ports}}})", kind=kind)

    def beats(self, name: str, valid: str, ready: str, last: str, count: int) -> None:
        """Emit the rule that `last` is set on the last beat of every block."""
        width = max(1, (count - 1).bit_length())
        moved = f"{valid} && {self.port(ready)}"
        self.state(
            f"logic [{width - 1}:0] {name}_beat;",
            "always_ff @(posedge clk)",
            f"  if (rst) {name}_beat <= '0;",
            f"  else if ({moved}) {name}_beat <= {name}_beat == {width}'d{count - 1} ? '0 : {name}_beat + 1'b1;",
        )
        self.rule(f"{name}_last", f"{valid} |-> {last} == ({name}_beat == {width}'d{count - 1})")

    def status(self, config: TileConfig, out_valid: str) -> None:
        """Emit the rules of counters, flags and `idle`."""
        self.title("Counters never decrease, and flags stay, until they are cleared.")
        clear = self.port("clear")
        for name in FLAGS:
            self.rule(f"{name}_stays", f"{self.port(name)} && !{clear} |=> {name}")
            self.rule(f"{name}_is_cleared", f"{clear} |=> !{name}")
        for name in counter_names(config):
            fields = config.rows if name == "row_wait" else 1
            for field in range(fields):
                counter = f"{self.port(name)}[{32 * field} +: 32]" if fields > 1 else self.port(name)
                label = f"{name}_{field}" if fields > 1 else name
                if config.snapshot:
                    self.rule(f"{label}_is_a_copy", f"!{self.port('snapshot')} |=> $stable({counter})")
                else:
                    self.rule(f"{label}_grows", f"!{clear} |=> {counter} >= $past({counter})")
                    self.rule(f"{label}_is_cleared", f"{clear} |=> {counter} == 32'd0")
        self.rule("idle_is_empty", f"{self.port('idle')} |-> !{out_valid}")

    def text(self, top: str) -> str:
        """Return the module and its binding."""
        widths = {"clk": 1, "rst": 1, **self.widths}
        ports = [
            f"    input wire {f'[{width - 1}:0] ' if width > 1 else ''}{name}"
            for name, width in widths.items()
            if name in self.used
        ]
        rules = "\n".join(f"  {line}".rstrip() for line in self.lines).strip("\n")
        return MODULE.format(name=f"{top}_assertions", top=top, ports=",\n".join(ports), rules=rules)


def assertions(config: TileConfig, wrapper: AxiStreamTile, prefix: str) -> str:
    """Return the file with the rules of both tops.

    Parameters
    ----------
    config : TileConfig
        The tile's configuration.
    wrapper : AxiStreamTile
        The outer top. The inner one is its tile.
    prefix : str
        Prefix of module names.

    Returns
    -------
    str
        SystemVerilog (IEEE 1800) for simulators and formal tools: for each top a module of concurrent assertions and a
        `bind`.
    """
    tops = (("tile", _tile_rules(config, wrapper.tile)), ("axi_stream_tile", _wrapper_rules(config, wrapper)))
    return HEADER.format(prefix=prefix) + "".join("\n" + rules.text(f"{prefix}_{top}") for top, rules in tops)


def _tile_rules(config: TileConfig, tile: Block) -> _Rules:
    rules = _Rules(tile)
    ports = [f"a_{i}" for i in range(config.columns)] + [f"b_{i}" for i in range(config.rows)]
    rules.title("No port gives more steps than it offers, all give the same number, and none in reset.")
    first = rules.port(f"{ports[0]}_taken")
    for port in ports:
        taken = rules.port(f"{port}_taken")
        rules.rule(f"{port}_gives_what_it_offers", f"{taken} <= {rules.port(f'{port}_available')}")
        rules.rule(f"{port}_gives_nothing_in_reset", f"rst |-> {taken} == '0", always=True)
        if port != ports[0]:
            rules.rule(f"{port}_moves_with_the_others", f"{taken} == {first}")
    if config.ring:
        rules.title("The line of the next step advances by the number of steps taken.")
        line = rules.port("entry_line")
        depth = config.window_depth
        # Bits that leave at the top enter at the bottom.
        turned = f"{depth}'(({{{line}, {line}}} << {first}) >> {depth})"
        rules.rule("entry_line_is_one_line", f"$onehot({line})")
        rules.rule("entry_line_moves_on", f"1'b1 |=> {line} == $past({turned})")
        rules.rule("entry_line_begins_at_line_0", f"rst |=> {line} == {depth}'d1", always=True)
    rules.title("Results stay until they are taken; the top bit of the payload marks a block's final beat.")
    rules.stays("out_valid", "out_ready", ["out_payload"], kind="assert")
    last = f"out_payload[{rules.widths['out_payload'] - 1}]"
    rules.beats("out", "out_valid", "out_ready", last, config.rows // config.out_rows)
    if config.initial:
        rules.title("C stays until it is taken, and is not taken in reset.")
        rules.stays("c_valid", "c_ready", ["c_payload"], kind="assume")
        rules.rule("c_waits_in_reset", "rst |-> !c_ready", always=True)
    rules.status(config, "out_valid")
    return rules


def _wrapper_rules(config: TileConfig, wrapper: AxiStreamTile) -> _Rules:
    rules = _Rules(wrapper)
    for side, index, _ in wrapper.sides:
        name, step = f"s_axis_{side}{index}", config.step_bytes(side)
        valid, ready, last, keep = (rules.port(f"{name}_t{pin}") for pin in ("valid", "ready", "last", "keep"))
        rules.title(f"{name}: beats stay until they are taken, have whole steps, and end streams that have begun.")
        rules.stays(valid, ready, [f"{name}_t{pin}" for pin in ("data", "keep", "last")], kind="assume")
        rules.rule(f"{name}_waits_in_reset", f"rst |-> !{ready}", always=True)
        whole = f"({keep} & ({keep} + 1'b1)) == '0 && $countones({keep}) % {step} == 0"
        rules.rule(f"{name}_has_whole_steps", f"{valid} |-> {whole}", kind="assume")
        rules.rule(f"{name}_is_full", f"{valid} && !{last} |-> &{keep} || ~|{keep}", kind="assume")
        rules.state(
            f"logic {name}_open;",
            "always_ff @(posedge clk)",
            f"  if (rst) {name}_open <= 1'b0;",
            f"  else if ({valid} && {ready} && (|{keep} || {last})) {name}_open <= !{last};",
        )
        rules.rule(f"{name}_ends_a_stream", f"{valid} && {last} && ~|{keep} |-> {name}_open", kind="assume")
    if config.initial:
        rules.title("C stays until it is taken, and is not taken in reset.")
        rules.stays("s_axis_c_tvalid", "s_axis_c_tready", ["s_axis_c_tdata", "s_axis_c_tlast"], kind="assume")
        rules.rule("s_axis_c_waits_in_reset", "rst |-> !s_axis_c_tready", always=True)
    rules.title("Results stay until they are taken; tlast marks a block's final beat.")
    rules.stays("m_axis_tvalid", "m_axis_tready", ["m_axis_tdata", "m_axis_tlast"], kind="assert")
    rules.beats("m_axis", "m_axis_tvalid", "m_axis_tready", "m_axis_tlast", config.rows // config.out_rows)
    rules.status(config, "m_axis_tvalid")
    return rules
