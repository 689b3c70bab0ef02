"""Bench of a core, whose results are compared with the golden core's."""

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.descriptors import BYTES

from ...compiler.emission import emit
from ...compiler.images import TensorImage
from ...compiler.program import ProgramError, dense_steps
from ...compiler.search import best_schedule
from ...emulator import contract
from ...golden.core.effects import written_groups, written_memory
from ...golden.core.golden_core import GoldenCore, Memory, Outcome
from ...golden.core.legal import Sequencer
from ..core_library import core_states
from ..programs.expected_outcome import (
    BUFFER_IMAGE,
    dump_program,
    empty_buffer,
    expected_outcome,
    fill_program,
    undefined_regions,
)
from ..programs.illegal_programs import IllegalProgram
from ..programs.random_layers import LayerWork, random_work
from ..programs.random_programs import PROGRAM, random_program
from ..verilated_core import VerilatedCore
from .core_coverage import ANSWERS, CoreCoverage
from .core_draw import SIZE
from .program_variants import repeat_program, with_tokens

__all__ = ["LAYER_BYTES", "MAX_DESCRIPTORS", "MAX_PROGRAM_CYCLES", "Bench"]

MAX_PROGRAM_CYCLES = 400_000
"""Cycles after which a program is taken to hang."""
LAYER_BYTES = 1 << 22
"""Bytes of memory for a layer's tensors; its descriptors are stored after them."""
MAX_DESCRIPTORS = 1 << 12
"""Maximum descriptors of a layer's program."""
SMALL_LAYER_MACS = (1_000, 200_000)
LARGE_LAYER_MACS = (500_000, 6_000_000)
"""Least and most multiply-accumulates of a layer."""

Regions = tuple[list[tuple[int, int]], set[int]]
"""Memory (address, bytes) and groups of the buffer with undefined content."""


class Bench:
    """Bench of a core, with the expected content of its buffer, and counts.

    Parameters
    ----------
    device : VerilatedCore
        The core, with `SIZE` bytes of memory.
    verilog : str
        The core's Verilog.
    coverage : CoreCoverage
        Coverage to update.
    random : Random
        Source of all random decisions.
    bits : iterator of (str, int)
        Infinite sequence of operations and bits of their descriptors to fuzz.

    Attributes
    ----------
    descriptors, positions, programs : int
        Numbers that the core executed, equal to golden.
    moved : dict of str to int
        Transfers on each channel in the last program.
    """

    def __init__(
        self,
        device: VerilatedCore,
        verilog: str,
        coverage: CoreCoverage,
        random: Random,
        bits: Iterator[tuple[str, int]],
    ) -> None:
        self.device, self.config, self.coverage, self.random = device, device.config, coverage, random
        self.bits = bits
        self.states = core_states(verilog)
        self.buffer = empty_buffer(self.config)
        self.descriptors = self.positions = self.programs = 0
        self.moved: dict[str, int] = {}
        self._errors = [0] * len(ANSWERS)
        self.pace((0, 1), 0.0)
        self._fill()
        self._probe = self.legal()
        self._probed, outcome = self.golden(self._probe, self._probe.descriptors)
        assert not outcome.error, f"the probe ends with {outcome.error}"
        self._probe_groups = self._described(self._probe.descriptors)[1]

    def _fill(self) -> None:
        """Fill all memories with random data."""
        device, data = self.device, self.random.randbytes(self.buffer.nbytes)
        device.memory[BUFFER_IMAGE:][: len(data)] = np.frombuffer(data, np.uint8)
        outcome = device.run(
            fill_program(self.config, device.base), device.base + PROGRAM, most=MAX_PROGRAM_CYCLES
        ).outcome
        assert not outcome.error, f"the fill program ends with {outcome.error}"
        self.buffer[:] = np.frombuffer(data, self.buffer.dtype).reshape(self.buffer.shape)

    # Programs

    def legal(self) -> IllegalProgram:
        """Draw a legal program, sometimes repeated, and add unnecessary tokens."""
        at, edges = self.device.base, self.random.random() < 0.5
        made = random_program(self.random, self.config, SIZE, edges=edges, at=at)
        descriptors = made.program.descriptors
        if self.random.random() < 0.15:
            descriptors = repeat_program(self.config, descriptors)
        descriptors = with_tokens(self.random, self.config, descriptors)
        for address, count in self._described(descriptors)[0]:  # Random bytes reveal missing writes.
            made.memory.write(address, self.random.randbytes(count))
        # A soft reset must not change the bounds, so half of the programs have the tightest possible bounds.
        bounds = (at, at + SIZE - 1) if self.random.random() < 0.5 else None
        return IllegalProgram(
            descriptors=descriptors, memory=made.memory, base=at + PROGRAM, title=made.title, bounds=bounds
        )

    def golden(
        self, made: IllegalProgram, executed: Sequence[int], faults: Iterable[int] = ()
    ) -> tuple[GoldenCore, Outcome]:
        """Run a program, or a part of its descriptors, on golden."""
        return expected_outcome(
            self.config, made.memory, made.base, list(executed), set(faults), self.buffer, made.bounds
        )

    # A run

    def prepare(self, made: IllegalProgram) -> None:
        """Write the program and its memory, and reset the core."""
        self.device.memory[:] = np.frombuffer(made.memory.bytes, np.uint8)
        self.device.put(made.descriptors, made.base)
        self.device.restrict(*(made.bounds or ()))
        self.reset()
        self.device.silence("")

    def reset(self) -> None:
        """Issue a soft reset, check that it ends all bursts, and record its coverage."""
        self.device.reset()
        assert self.device.idle, "a burst was left without its end"
        self.coverage.reset(self.states, *self.device.at_reset)

    def check(self, made: IllegalProgram, faults: Iterable[int] = (), *, defined: int | None = None) -> Outcome:
        """Run a program, legal or not, with or without memory errors, and compare its outcome with golden's.

        Parameters
        ----------
        made : IllegalProgram
            The program.
        faults : iterable of int
            Lines of memory that respond with an error.
        defined : int, optional
            Unless one of this number of first descriptors has an error, results of later descriptors are undefined.
        """
        device = self.device
        model, wanted = self.golden(made, made.descriptors, faults)
        self.prepare(made)
        device.fail(faults)
        # An error may come after an end.
        device.begin(made.base, len(made.descriptors), causes=2 if wanted.error else 3)
        assert device.wait(MAX_PROGRAM_CYCLES), f"no interrupt in {MAX_PROGRAM_CYCLES} cycles, golden: {wanted}"
        got, self.moved = device.outcome(), device.moved
        assert (got.done, got.error, got.index) == (wanted.done, wanted.error, wanted.index), f"{got}, golden: {wanted}"
        self.coverage.add("error", wanted.error or "none")
        if defined is not None and not (wanted.error and wanted.index < defined):
            self.stopped(made, made.descriptors, defined - 1, legal=False)
            return wanted
        self.settle(
            made, model, undefined_regions(self.config, made.descriptors, wanted, made.bounds), probe=bool(wanted.error)
        )
        self.executed(made.descriptors[: wanted.done])
        return wanted

    def stopped(
        self,
        made: IllegalProgram,
        executed: Sequence[int],
        done: int,
        *,
        any_order: bool = False,
        legal: bool = True,
    ) -> None:
        """Check the state after a program was stopped; descriptors after the first `done` may be executed in part.

        With `any_order`, the core may have executed any of the program's descriptors, in any order. A byte that a
        `legal` program writes must have its value before the program or its final value.
        """
        model, wanted = self.golden(made, [] if any_order else executed[:done])
        assert not wanted.error, f"golden ends with {wanted.error} before it is stopped"
        end = None if any_order or not legal else self.golden(made, executed)[0].memory
        self.settle(made, model, self._described(executed[0 if any_order else done :]), probe=True, end=end)
        if not any_order:
            self.executed(executed[:done])

    def settle(
        self, made: IllegalProgram, model: GoldenCore, besides: Regions, *, probe: bool, end: Memory | None = None
    ) -> None:
        """Reset, and compare memory and buffer except the regions `besides`; with `probe`, also run a legal program.

        If `end` is not None, bytes in these regions must have their value before the program or in `end`.
        """
        device, (memory, groups) = self.device, besides
        self.reset()  # The reset also completes pending writes.
        device.restrict()
        device.fail(())
        if end is not None:
            self._check_either(made, end, memory)
        self._same_memory(model.memory, [*memory, (made.base, BYTES * 4 * len(made.descriptors))])
        device.behave(latency=(0, 1), pause=0.0)
        if probe:
            self._check_probe()
            groups = groups | self._probe_groups
        self._same_buffer(model.buffer, groups)
        device.behave(**self._pace, unruly=True)
        self._count_answers()

    def pace(self, latency: tuple[int, int], pause: float) -> None:
        """Set the memory's latency and pauses for programs; while results are compared, the memory is fast."""
        self._pace: dict[str, Any] = {"latency": latency, "pause": pause}
        self.device.behave(**self._pace, unruly=True)

    def _check_probe(self) -> None:
        device, probe = self.device, self._probe
        device.memory[:] = np.frombuffer(probe.memory.bytes, np.uint8)
        outcome = device.run(probe.descriptors, probe.base, most=MAX_PROGRAM_CYCLES).outcome
        assert outcome.done == len(probe.descriptors), f"a legal program afterwards: {outcome}"
        try:
            self._same_memory(self._probed.memory, [])
        except AssertionError as error:
            raise AssertionError(f"a legal program afterwards: {error}") from None
        self.executed(probe.descriptors)

    def _same_memory(self, expected: Memory, besides: Sequence[tuple[int, int]]) -> None:
        ours, theirs = self.device.memory.copy(), np.frombuffer(bytes(expected.bytes), np.uint8).copy()
        for address, count in besides:
            begin = address - expected.base
            part = slice(max(begin, 0), max(begin + count, 0))
            ours[part] = theirs[part] = 0
        wrong = np.flatnonzero(ours != theirs)
        assert not len(wrong), f"byte {expected.base + int(wrong[0]):#x} differs, and {len(wrong) - 1} others"

    def _check_either(self, made: IllegalProgram, end: Memory, places: Sequence[tuple[int, int]]) -> None:
        for address, count in places:
            begin = address - end.base
            ours, old, new = (
                np.frombuffer(each[begin : begin + count], np.uint8)
                for each in (self.device.memory, made.memory.bytes, end.bytes)
            )
            wrong = np.flatnonzero((ours != old) & (ours != new))
            assert not len(wrong), f"byte {address + int(wrong[0]):#x} is neither old nor new"

    def _same_buffer(self, expected: np.ndarray, besides: set[int]) -> None:
        device = self.device
        device.run(dump_program(self.config, device.base), device.base + PROGRAM, most=MAX_PROGRAM_CYCLES)
        image = device.memory[BUFFER_IMAGE:][: self.buffer.nbytes].tobytes()
        self.buffer[:] = np.frombuffer(image, self.buffer.dtype).reshape(self.buffer.shape)
        differs = np.flatnonzero((self.buffer != expected).reshape(self.config.groups, -1).any(axis=1))
        wrong = sorted(set(differs.tolist()) - besides)
        assert not wrong, f"group {wrong[0]} of the buffer differs, and {len(wrong) - 1} others"

    def _described(self, descriptors: Iterable[int]) -> Regions:
        """Return all regions that legal descriptors may write, regardless of token errors."""
        memory, groups = [], set[int]()
        for bits in descriptors:
            if Sequencer(self.config).refusal(bits) in ("", "tokens"):
                memory += written_memory(bits, self.config)
                groups |= written_groups(bits, self.config)
        return memory, groups

    # Counts

    def executed(self, descriptors: Sequence[int]) -> None:
        """Count executed descriptors."""
        self.programs += 1
        self.descriptors += len(descriptors)
        self.positions += dense_steps(self.config, descriptors) * self.config.tile.multipliers
        self.coverage.descriptors(descriptors)

    def _count_answers(self) -> None:
        now = self.device.errors
        for point, before, count in zip(ANSWERS, self._errors, now, strict=True):
            if count > before:
                self.coverage.add("wrong answer", point, count - before)
        self._errors = now

    def layer(self, device: VerilatedCore) -> str:
        """Run a random layer with the mapper's tiling, in its own memory; return a title, empty if it does not fit.

        For a small layer, all of memory must equal golden's. Golden is too slow for a large layer, whose result must
        equal the emulator's; the rest of memory must not change.
        """
        large = self.random.random() < 0.6
        work = random_work(self.random, self.config, LARGE_LAYER_MACS if large else SMALL_LAYER_MACS)
        try:
            image = work.image(self.config, Memory(LAYER_BYTES))
            schedule = best_schedule(work.space(self.config))
            if len(schedule.multiplies) > MAX_DESCRIPTORS // 4:  # The search for tokens takes long.
                return ""
            program = emit(schedule, image.tensors).descriptors
        except (ProgramError, ValueError):  # The layer does not fit the core or memory.
            return ""
        if len(program) > MAX_DESCRIPTORS:
            return ""
        device.memory[:LAYER_BYTES] = np.frombuffer(image.memory.bytes, np.uint8)
        got = device.run(program, LAYER_BYTES).outcome
        title = f"{work.operation} of {work.layer}"
        wanted = Outcome(done=len(program), ends=1) if large else GoldenCore(self.config, image.memory).run(program)
        assert got == wanted, f"{title}: {got}, golden: {wanted}"
        left = device.memory[:LAYER_BYTES]
        if large:
            self._same_result(work, image, left, title)
        assert left.tobytes() == bytes(image.memory.bytes), f"{title}: memory differs"
        self.executed(program)
        return title

    def _same_result(self, work: LayerWork, image: TensorImage, left: NDArray[np.uint8], title: str) -> None:
        """Copy a layer's result from the core's memory to the image, and compare it with the emulator's."""
        begin = image.tensors["result"]
        end = min([each for each in image.tensors.values() if each > begin], default=image.end)
        image.memory.bytes[begin:end] = left[begin:end].tobytes()
        expected = contract(
            self.config,
            work.layer,
            work.operation,
            work.rows,
            work.values,
            fp32=work.fp32,
            relu=work.relu,
            bias=work.values.get("bias"),
            mask=work.values.get("mask"),
        )
        result = image.result()
        wrong = np.flatnonzero(result.view(expected.dtype) != expected)
        assert not len(wrong), (
            f"{title}: element {int(wrong[0])} differs from the emulator's, and {len(wrong) - 1} others"
        )
