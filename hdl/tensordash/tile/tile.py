"""Tile: rows x columns PEs that share B along rows and A along columns."""

from functools import reduce
from operator import and_
from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..arithmetic.sum_ports import starts_from_c
from ..block import Block, placed
from ..configuration.config import TileConfig
from ..configuration.connectivity import Connectivity
from ..configuration.formats import FloatFormat
from ..layouts import beat_layout, sum_beat_layout
from ..schedule.operand_flags import OperandFlags
from ..schedule.operand_mux import OperandMux
from ..schedule.row_scheduler import RowScheduler
from ..schedule.staging_buffer import StagingBuffer
from ..schedule.staging_ring import StagingRing
from ..schedule.step_select import StepSelect
from .control import Control
from .counters import Counters
from .drain import Drain, adds_c
from .flags import FLAGS, Flags
from .initial_store import InitialStore
from .output_buffer import OutputBuffer
from .pe import PE
from .scheduled_pe import ScheduledPE
from .self_scheduled_pe import SelfScheduledPE
from .snapshot import Snapshot
from .status import counter_names, status_members
from .steps import StepsSignature
from .sum_drain import SumDrain

__all__ = ["Tile"]


class Tile(Block):
    """A Tensorcore tile: the TensorDash tile (`sparsity` = rows or both) or its dense baseline (none).

    Timing: docs/tile.md defines what happens in each cycle. A stream of T steps takes from ceil(T / depth) to T
    cycles of schedules (baseline: T). The next stream follows without a bubble. Results are valid `output_latency`
    cycles after the last schedule.

    Parameters
    ----------
    config : TileConfig
        The tile's configuration.
    rounded : bool
        Results are rounded. Otherwise `out` has the sums of a row before rounding, as inside of a core.
    empty_steps : bool
        Steps of side B can be empty, as inside of a core that drops steps. Only with `sparsity` = rows.

    Members
    -------
    a : In(StepsSignature), one per column
    b : In(StepsSignature), one per row
        Inputs. All advance together.
    b_empty : In(depth)
        Only with `empty_steps`: steps offered on side B that count as zeros in all rows, whatever their values are.
    out : Out(stream of beat_layout)
        Blocks of results, row 0 first.
    c : In(stream of beat_layout)
        Only with `initial`: the C of each stream.
    entry_line : Out(depth)
        Only with `staging` = ring: the line of the next step to enter, one-hot.
    clear, idle, and counters and flags
        As docs/tile.md; `snapshot` only with `counters` = snapshot.

    Raises
    ------
    TypeError
        If `config` is not a TileConfig.
    ValueError
        If `rounded` is false, and the configuration has `initial`, `registered_ready` or a fused accumulator. If
        `empty_steps` is true, and `sparsity` is not rows.

    Source: paper, Fig. 7 and section III-A, "Composing TensorDash Cores".
    """

    def __init__(self, config: TileConfig, *, rounded: bool = True, empty_steps: bool = False) -> None:
        if not isinstance(config, TileConfig):
            raise TypeError(f"config must be a TileConfig, not {config!r}")
        if not rounded and config.registered_ready:
            raise ValueError("registered_ready must be false where sums are not rounded")
        if empty_steps and config.sparsity != "rows":
            raise ValueError(f"sparsity must be rows where steps can be empty, not {config.sparsity}")
        self.config, self.empty_steps = config, empty_steps
        rows, columns, lanes, depth = config.rows, config.columns, config.lanes, config.window_depth
        numerics = config.numerics
        beat = stream.Signature(beat_layout(config.out_rows, columns))
        result = beat if rounded else stream.Signature(sum_beat_layout(numerics, columns))
        super().__init__(
            {
                "a": In(StepsSignature(config.a_format.width, lanes, depth, numerics.scale_bits)).array(columns),
                "b": In(StepsSignature(config.b_format.width, lanes, depth, numerics.scale_bits)).array(rows),
                **({"b_empty": In(depth)} if empty_steps else {}),
                "out": Out(result),
                **({"c": In(beat)} if config.initial else {}),
                **({"entry_line": Out(depth)} if config.ring else {}),
                **status_members(config),
            },
        )
        self.latency = config.stages - 1
        adds_up = adds_c(numerics) and numerics.result == "fp32"
        self.output_latency = self.latency + 2 + adds_up + config.registered_ready if rounded else self.latency + 1
        self.connectivity = Connectivity(config.options, lanes=lanes, depth=depth)
        schedulers = {"none": 0, "rows": rows, "both": rows * columns}[config.sparsity]
        self.control = Control(
            ports=rows + columns,
            schedulers=schedulers,
            depth=depth,
            full_window=config.needs_full_window,
            initial=config.initial,
            ring=config.ring,
        )
        self.flags = Flags()
        self.drain: Drain | SumDrain = (
            Drain(rows=rows, columns=columns, out_rows=config.out_rows, numerics=numerics)
            if rounded
            else SumDrain(rows=rows, columns=columns, numerics=numerics)
        )
        scale_ports = [*(("a", i) for i in range(columns)), *(("b", i) for i in range(rows))]
        self.scales = {port: self._scale_staging() for port in (scale_ports if numerics.scale is not None else ())}
        self.a_inputs = [self._input("a") for _ in range(columns)]
        self.b_inputs = [self._input("b") for _ in range(rows)]
        self.row_schedulers = [self._row_scheduler() for _ in range(rows if config.sparsity == "rows" else 0)]
        chooses = config.sparsity == "rows" and numerics.scale is not None
        self.step_selects = [StepSelect(self.connectivity, ring=config.ring) for _ in range(rows * chooses)]
        self.pes = {(row, column): self._pe() for row in range(rows) for column in range(columns)}
        if config.initial:
            self.store = InitialStore(
                rows=rows,
                columns=columns,
                out_rows=config.out_rows,
                pops_blocks=starts_from_c(numerics),
                floating=isinstance(config.a_format, FloatFormat),
            )
        if config.registered_ready:
            self.output_buffer = OutputBuffer(out_rows=config.out_rows, columns=columns)
        if config.counts:
            weight = 1 if schedulers else rows * lanes
            selections = schedulers * lanes or 1
            self.counters = Counters(rows=rows, depth=depth, selections=selections, weight=weight)
        if config.snapshot:
            self.copies = Snapshot(rows=rows)
        self._frozen = Signal(name="frozen")
        self._start = Signal(name="start")
        self._ending = Signal(name="ending")  # a slot of the pipeline has the last schedule of a stream
        self._overflows = Signal(rows * columns, name="overflows")
        self._row_advance = [Signal(depth, name=f"row_advance_{row}") for row in range(rows)]
        self._selected = Signal(schedulers * lanes or 1, name="selected")

    def _input(self, side: str) -> tuple[OperandFlags, Any]:
        """Return the flags and the staging buffer of a port."""
        config = self.config
        fmt = config.a_format if side == "a" else config.b_format
        needs_zeros = config.sparsity == "both" or (config.sparsity == "rows" and side == "b")
        kind = StagingRing if config.ring else StagingBuffer
        shape = {"lanes": config.lanes, "depth": config.window_depth}
        empty = self.empty_steps and side == "b"
        flags = OperandFlags(fmt=fmt, **shape, zeros=needs_zeros, scale=config.numerics.scale, empty=empty)
        return flags, kind(width=fmt.width, **shape)

    def _scale_staging(self) -> StagingBuffer | StagingRing:
        """Return the staging buffer for the scales of a port's steps."""
        kind = StagingRing if self.config.ring else StagingBuffer
        return kind(width=self.config.numerics.scale_bits, lanes=1, depth=self.config.window_depth)

    def _row_scheduler(self) -> tuple[RowScheduler, OperandMux]:
        """Return the scheduler of a row, and its mux of B."""
        config, connectivity = self.config, self.connectivity
        return (
            RowScheduler(connectivity, ring=config.ring),
            OperandMux(width=config.b_format.width, connectivity=connectivity, ring=config.ring),
        )

    def _pe(self) -> Any:
        config, connectivity = self.config, self.connectivity
        numerics, stages = config.numerics, config.stages
        if config.sparsity == "none":
            return PE(numerics=numerics, lanes=config.lanes, stages=stages)
        kind = ScheduledPE if config.sparsity == "rows" else SelfScheduledPE
        return kind(numerics=numerics, connectivity=connectivity, stages=stages, ring=config.ring)

    def elaborate(self, platform):
        """Build the ports, the array of PEs, the pipeline's controls, C, the output and the status."""
        m = Module()
        m.submodules.control = placed(self.control, platform)
        m.submodules.flags = placed(self.flags, platform)
        m.submodules.drain = placed(self.drain, platform)
        self._ports(m, platform)
        self._array(m, platform)
        array = {"none": self._dense, "rows": self._rows, "both": self._both}[self.config.sparsity]
        array(m, platform)
        self._pipeline(m)
        if self.config.initial:
            self._initial(m, platform)
        self._output(m, platform)
        self._raise(m)
        if self.config.counts:
            self._count(m, platform)
        return m

    def _ports(self, m: Module, platform) -> None:
        """Connect each port to its staging buffer and its flags."""
        config, control = self.config, self.control
        ports = [("a", *each) for each in enumerate(self.a_inputs)] + [
            ("b", *each) for each in enumerate(self.b_inputs)
        ]
        for place, (side, index, (flags, staging)) in enumerate(ports):
            port = getattr(self, side)[index]
            m.submodules[f"{side}_flags_{index}"] = placed(flags, platform)
            m.submodules[f"{side}_staging_{index}"] = placed(staging, platform)
            m.d.comb += [
                flags.steps.eq(port.steps),
                staging.steps.eq(port.steps),
                staging.write.eq(control.write) if config.ring else staging.refill.eq(control.motion.refill),
                control.available[place].eq(port.available),
                control.last[place].eq(port.last),
                port.taken.eq(control.taken),
            ]
        if self.empty_steps:
            m.d.comb += [flags.empty.eq(self.b_empty) for flags, _ in self.b_inputs]
        for (side, index), staging in self.scales.items():
            port = getattr(self, side)[index]
            m.submodules[f"{side}_scales_{index}"] = placed(staging, platform)
            m.d.comb += [
                (self.a_inputs if side == "a" else self.b_inputs)[index][0].scales.eq(port.scales),
                staging.steps.eq(port.scales),
                staging.write.eq(control.write) if config.ring else staging.refill.eq(control.motion.refill),
            ]
        if config.ring:
            m.d.comb += self.entry_line.eq(control.entry_line)

    def _array(self, m: Module, platform) -> None:
        """Place the PEs, and wire the ports that all kinds of PEs have."""
        for (row, column), pe in self.pes.items():
            m.submodules[f"pe_{row}_{column}"] = placed(pe, platform)
            m.d.comb += [
                pe.sum.hold.eq(self._frozen),
                pe.sum.start.eq(self._start),
                pe.sum.take.eq(self.drain.take),
                self.drain.sums[row][column].eq(pe.sum.value),
                self._overflows[row * self.config.columns + column].eq(pe.sum.overflow),
            ]
            if self.scales:
                m.d.comb += [
                    pe.a_scales.eq(self.scales["a", column].window),
                    pe.b_scales.eq(self.scales["b", row].window),
                ]

    def _dense(self, m: Module, platform) -> None:
        """Wire the baseline: every pair of the step in the operand registers is multiplied."""
        scheduled = self.control.motion.scheduled
        for (row, column), pe in self.pes.items():
            m.d.comb += [
                pe.a.eq(self.a_inputs[column][1].window[0]),
                pe.b.eq(self.b_inputs[row][1].window[0]),
                pe.active.eq(scheduled.replicate(self.config.lanes)),
            ]
        m.d.comb += [self._selected.eq(scheduled), *(each.eq(self.control.advance) for each in self._row_advance)]

    def _rows(self, m: Module, platform) -> None:
        """Wire row schedulers: each row schedules on its B window and muxes B for its PEs."""
        lanes, control = self.config.lanes, self.control
        for row, (scheduler, mux) in enumerate(self.row_schedulers):
            flags, staging = self.b_inputs[row]
            m.submodules[f"scheduler_{row}"] = placed(scheduler, platform)
            m.submodules[f"b_mux_{row}"] = placed(mux, platform)
            m.d.comb += [
                scheduler.nonzero.eq(flags.nonzero),
                mux.window.eq(staging.window),
                mux.select.eq(scheduler.select),
                control.advances[row].eq(scheduler.advance),
                self._row_advance[row].eq(scheduler.advance & control.motion.scheduled.replicate(len(control.advance))),
                self._selected[row * lanes : (row + 1) * lanes].eq(scheduler.active),
            ]
        for row, step_select in enumerate(self.step_selects):
            m.submodules[f"step_select_{row}"] = placed(step_select, platform)
            m.d.comb += step_select.select.eq(self.row_schedulers[row][0].select)
            m.d.comb += [self.pes[row, column].chosen.eq(step_select.steps) for column in range(self.config.columns)]
        wiring.connect(m, control.motion, *(scheduler.motion for scheduler, _ in self.row_schedulers))
        for (row, column), pe in self.pes.items():
            scheduler, mux = self.row_schedulers[row]
            m.d.comb += [
                pe.a_window.eq(self.a_inputs[column][1].window),
                pe.select.eq(scheduler.select),
                pe.b.eq(mux.operands),
                pe.active.eq(scheduler.active),
            ]

    def _both(self, m: Module, platform) -> None:
        """Wire self-scheduled PEs: each schedules on the windows of its row and column."""
        config, lanes, control = self.config, self.config.lanes, self.control
        for index, ((row, column), pe) in enumerate(self.pes.items()):
            a_flags, a_staging = self.a_inputs[column]
            b_flags, b_staging = self.b_inputs[row]
            m.d.comb += [
                pe.a_window.eq(a_staging.window),
                pe.b_window.eq(b_staging.window),
                pe.a_nonzero.eq(a_flags.nonzero),
                pe.b_nonzero.eq(b_flags.nonzero),
                control.advances[index].eq(pe.advance),
                self._selected[index * lanes : (index + 1) * lanes].eq(pe.active),
            ]
        wiring.connect(m, control.motion, *(pe.motion for pe in self.pes.values()))
        made = control.motion.scheduled.replicate(len(control.advance))
        for row, advance in enumerate(self._row_advance):
            m.d.comb += advance.eq(
                reduce(and_, (self.pes[row, column].advance for column in range(config.columns))) & made
            )

    def _pipeline(self, m: Module) -> None:
        """Carry each schedule's marks to its accumulation. Freeze at a stream's end until the last block has left."""
        first, ends = self.control.starts, self.control.ends
        ending = []
        for stage in range(self.latency):
            marks = Signal(2, name=f"marks_{stage}")
            with m.If(~self._frozen):
                m.d.sync += marks.eq(Cat(first, ends))
            first, ends = marks
            ending.append(ends)
        due_ends = Signal()
        # Without a stage in between, the schedule to accumulate is the one that this cycle makes unless frozen.
        m.d.comb += [
            due_ends.eq(ends if self.latency else self.control.ends_next),
            self._ending.eq(Cat(ending).any() if ending else 0),
            self._frozen.eq(due_ends & ~self.drain.free),
            self.control.frozen.eq(self._frozen),
            self.drain.take.eq(due_ends & self.drain.free),
            self._start.eq(first & ~self._frozen),
        ]

    def _initial(self, m: Module, platform) -> None:
        """Connect the store of C to the PEs or to the drain."""
        store = self.store
        m.submodules.initial_store = placed(store, platform)
        wiring.connect(m, wiring.flipped(self.c), store.c)
        m.d.comb += [self.control.startable.eq(store.available), store.starts.eq(self.control.starts)]
        if store.pops_blocks:
            m.d.comb += store.pop.eq(self._start)
            m.d.comb += [pe.sum.c.eq(store.values[row][column]) for (row, column), pe in self.pes.items()]
        else:
            m.d.comb += [store.pop.eq(self.drain.moves), self.drain.c.eq(store.values)]

    def _output(self, m: Module, platform) -> None:
        """Connect the output, and drive `idle` when no step and no result is left."""
        empty = [self.control.empty, ~self._ending, self.drain.empty]
        if self.config.initial:
            empty.append(self.store.empty)
        if self.config.registered_ready:
            m.submodules.output_buffer = placed(self.output_buffer, platform)
            wiring.connect(m, self.drain.out, self.output_buffer.beats)
            wiring.connect(m, self.output_buffer.out, wiring.flipped(self.out))
            empty.append(self.output_buffer.empty)
        else:
            wiring.connect(m, self.drain.out, wiring.flipped(self.out))
        m.d.comb += self.idle.eq(Cat(empty).all())

    def _raise(self, m: Module) -> None:
        """Drive the events that raise flags."""
        control, initial = self.control, self.config.initial
        entering = control.write if self.config.ring else control.entering
        entering_special = Cat((flags.non_finite & entering).any() for flags, _ in [*self.a_inputs, *self.b_inputs])
        causes = {
            "protocol_error": [control.protocol_error, *([self.store.wrong_last] if initial else [])],
            "non_finite": [entering_special, *([self.store.non_finite] if initial else [])],
            "overflow": [self._overflows, *([self.drain.overflow] if self.drain.adds_c else [])],
            "result_non_finite": [self.drain.non_finite],
        }
        m.d.comb += [
            self.flags.raised.eq(Cat(Cat(causes[name]).any() for name in FLAGS)),
            self.flags.clear.eq(self.clear),
            *(getattr(self, name).eq(getattr(self.flags, name)) for name in FLAGS),
        ]

    def _count(self, m: Module, platform) -> None:
        """Build the counters and, with snapshots, their copy."""
        counters, control = self.counters, self.control
        m.submodules.counters = placed(counters, platform)
        m.d.comb += [
            counters.advance.eq(control.advance),
            counters.row_advance.eq(Cat(self._row_advance)),
            counters.selected.eq(self._selected),
            counters.frozen.eq(self._frozen),
            counters.starved.eq(control.starved),
            counters.limited.eq(control.limited),
            counters.clear.eq(self.clear),
        ]
        shown = counters.counts
        if self.config.snapshot:
            m.submodules.snapshot = placed(self.copies, platform)
            wiring.connect(m, counters.counts, self.copies.counted)
            m.d.comb += self.copies.take.eq(self.snapshot)
            shown = self.copies.copied
        m.d.comb += [getattr(self, name).eq(getattr(shown, name)) for name in counter_names(self.config)]
