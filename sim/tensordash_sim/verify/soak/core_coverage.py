"""Coverage of a campaign of cores: points by group, counted for programs whose results equal golden's."""

from collections import Counter
from collections.abc import Iterable, Iterator
from math import prod

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BITS, HEADER, OPERATIONS, UNITS, decode
from tensordash.configuration.registers import ERRORS

from ..core_library import CoreState
from ..programs.illegal_programs import CLAUSES
from .core_draw import key_points
from .coverage import Counts

__all__ = ["ANSWERS", "BUS", "QUEUES", "SILENCES", "CoreCoverage", "state_points", "universe"]

ANSWERS = tuple(
    f"{what} {response}, {beat}"
    for what in ("descriptor", "tensor", "write")
    for response in ("SLVERR", "DECERR")
    for beat in ("only beat", "first beat", "beat between", "last beat")
)
"""Error responses of a memory, in the order of the harness."""
BUS = (
    "address of a read offered",
    "descriptor on its way",
    "tensor on its way",
    "between beats of a read",
    "address of a write offered",
    "data of a write offered",
    "between beats of a write",
    "answer to a write awaited",
)
"""Transfers on the bus when a soft reset begins, in the order of the harness."""
SILENCES = (
    *(f"{what} of {of}" for what in ("address of a read", "data") for of in ("a descriptor", "tensors")),
    "address of a write",
    "data of a write",
    "answer to a write",
)
QUEUES = (
    "tail beyond the ring",
    "tail moved in steps",
    "tail moved back",
    "base moved while it rests",
    "base moved while it fetches",
    "size changed while it fetches",
)
FAILING = (
    "fetch",
    "load",
    "load compressed",
    "table of a load",
    "store",
    "store compressed",
    "table of a store",
    "record",
)
MULTIPLY = ("add", "emit", "transposed", "fp32", "bias", "relu", "mask", "stochastic", "toward_zero", "skip_masked")
LOOPS = {"load": 4, "store": 4, "layout_a": 6, "layout_b": 6, "multiply": 4}


class CoreCoverage:
    """Coverage of one job.

    Parameters
    ----------
    config : CoreConfig
        The job's core.

    Attributes
    ----------
    counts : dict of str to Counter
        Counts by group and point.
    bits : dict of str to int
        By operation, a mask of its descriptors' fuzzed bits.
    """

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        self.counts: Counts = {}
        self.bits = dict.fromkeys(OPERATIONS, 0)
        for point in key_points(config):
            self.add("key", point)

    def add(self, group: str, point: str, count: int = 1) -> None:
        self.counts.setdefault(group, Counter())[point] += count

    def met(self, group: str, point: str) -> int:
        """Return the count of a point."""
        return self.counts.get(group, Counter())[point]

    def descriptors(self, executed: Iterable[int]) -> None:
        """Record executed descriptors whose results equal golden's."""
        for bits in executed:
            for group, point in _points(self.config, bits):
                self.add(group, point)

    def reset(self, states: Iterable[CoreState], at_reset: int, bus: int) -> None:
        """Record the states of a core and its bus when a soft reset began."""
        for state in states:
            value = at_reset >> state.low & (1 << state.width) - 1
            if state.name != "reset" and (value or state.width > 1):
                self.add("soft reset", _state_point(state, value))
        for k, name in enumerate(BUS):
            if bus >> k & 1:
                self.add("soft reset", name)

    def fuzzed(self, operation: str, bit: int) -> None:
        """Record a fuzzed bit of a descriptor."""
        self.bits[operation] |= 1 << bit
        fields = (*HEADER, *OPERATIONS[operation].fields)
        name = next((field.name for field in fields if field.mask >> bit & 1), "reserved bits")
        self.add("field fuzzed", f"{operation} {name}")


def _state_point(state: CoreState, value: int) -> str:
    if state.width == 1:
        return {"error": "an error stands"}.get(state.name, f"{state.name} runs")
    return f"{state.name} {value} of {state.values}"


def state_points(states: Iterable[CoreState]) -> list[str]:
    """Return the points of soft resets in a core with these states."""
    return [
        _state_point(state, value)
        for state in states
        if state.name != "reset"
        for value in range(1 if state.width == 1 else 0, state.values)
    ]


def _points(config: CoreConfig, bits: int) -> Iterator[tuple[str, str]]:
    """Yield the (group, point) pairs of a descriptor."""
    operation, values = decode(bits)
    assert operation is not None
    name = operation.name
    yield "operation", f"{name} compressed" if values.get("compressed") else name
    waits = {operation.unit: values["wait"]} | ({"output": values["output_wait"]} if name == "multiply" else {})
    for consumer, wait in waits.items():
        for k, producer in enumerate(UNITS):
            if wait >> k & 1:
                yield "token", f"{producer} to {consumer}"
    if name == "multiply":
        for flag in MULTIPLY:
            if values[flag]:
                yield "multiply", flag
        if values["emit"]:
            yield "multiply", f"scale {'up' if values['scale'] > 0 else 'down' if values['scale'] else 'none'}"
        for side in "ab":
            if values[f"{side}_streams"] > 1:
                yield "multiply", f"streams of {side.upper()}"
        if values["steps"] > config.tile.window_depth:
            yield "multiply", "several windows"
    if name.startswith("layout"):
        for flag in ("transposed", "checked"):
            if values[flag]:
                yield "layout", f"{name} {flag}"
    if "stride" in values and (name != "multiply" or values["emit"]):
        yield "walk", f"{name} stride {values['stride']}"
        for axis in "xy":
            if values[axis] < 0:
                yield "walk", f"{name} from {axis} below 0"
    for k in _loops(config, name, values):
        yield "walk", f"{name} loop {k}"


def _loops(config: CoreConfig, name: str, values: dict[str, int]) -> Iterator[int]:
    """Yield the numbers of a descriptor's loops that run more than once."""
    loops = LOOPS.get(name, 0)
    if name in ("load", "store"):
        yield from (k for k in range(loops) if values[f"count_{k}"] > 1)
        return
    if not loops or not values.get("emit", 1):
        return
    if name == "multiply":
        left = values["a_streams"] * values["b_streams"] * config.parts("a") * config.parts("b")
    else:
        left = values["streams"] * config.parts(name[-1]) * values["steps"]
    for k in range(loops - 1):
        if values[f"count_{k}"] > 1 and left > prod(values[f"count_{j}"] for j in range(k)):
            yield k
    if left > prod(values[f"count_{k}"] for k in range(loops - 1)):
        yield loops - 1


def universe() -> dict[str, list[str]]:
    """Return every point that a campaign can reach, by group; a core's states add the points of `state_points`."""
    walks = [f"{name} stride {k}" for name in ("layout_a", "layout_b", "multiply") for k in range(1, 5)]
    walks += [f"layout_{side} from {axis} below 0" for side in "ab" for axis in "xy"]
    walks += [f"{name} loop {k}" for name, loops in LOOPS.items() for k in range(loops)]
    fuzzed = [f"{name} {field.name}" for name, each in OPERATIONS.items() for field in (*HEADER, *each.fields)] + [
        f"{name} reserved bits" for name in OPERATIONS
    ]
    return {
        "key": sorted(key_points()),
        "operation": [*OPERATIONS, "load compressed", "store compressed"],
        "multiply": [
            *MULTIPLY,
            *(f"scale {way}" for way in ("up", "down", "none")),
            *(f"streams of {side}" for side in "AB"),
            "several windows",
        ],
        "layout": [f"layout_{side} {flag}" for side in "ab" for flag in ("transposed", "checked")],
        "walk": walks,
        "token": [f"{producer} to {consumer}" for producer in UNITS for consumer in UNITS],
        "error": [*ERRORS, "none"],
        "illegal program": list(CLAUSES),
        "field fuzzed": fuzzed,
        "failing memory": [*FAILING],
        "wrong answer": list(ANSWERS),
        "silent memory": list(SILENCES),
        "queue": list(QUEUES),
        "soft reset": [*BUS],
    }


BITS_IN_ALL = BITS * len(OPERATIONS)
"""Number of bits of all operations' descriptors, which a campaign fuzzes."""
