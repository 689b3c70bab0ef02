"""Tile: rows x columns PEs that share B along rows and A along columns."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, Signature

from ..arithmetic.sum_ports import starts_from_c
from ..block import Block
from ..configuration.config import TileConfig
from ..configuration.connectivity import Connectivity
from ..configuration.formats import FloatFormat
from ..layouts import beat_layout, steps_layout
from ..schedule.operand_flags import OperandFlags
from ..schedule.operand_mux import OperandMux
from ..schedule.row_scheduler import RowScheduler
from ..schedule.staging_buffer import StagingBuffer
from ..schedule.staging_ring import StagingRing
from .control import Control, count_bits
from .counters import COUNTERS, FLAGS, Counters, counter_members
from .drain import Drain, adds_c
from .initial_store import InitialStore
from .pe import PE
from .scheduled_pe import ScheduledPE
from .self_scheduled_pe import SelfScheduledPE

__all__ = ["StepsSignature", "Tile"]


class StepsSignature(Signature):
    """An input port of a tile: up to `depth` steps a cycle.

    Members
    -------
    steps : Out(steps_layout)
        Steps offered, oldest first; where the staging buffers are rings, step t since reset on line t modulo depth.
    available : Out(0..depth)
        How many of them there are.
    last : Out(1)
        The step at ``available - 1`` ends the stream; the next stream is offered the cycle after.
    taken : In(0..depth)
        How many enter in this cycle. It may depend on `available` in the same cycle, never the reverse.
    """

    def __init__(self, width: int, lanes: int, depth: int) -> None:
        super().__init__(
            {
                "steps": Out(steps_layout(width, lanes, depth)),
                "available": Out(count_bits(depth)),
                "last": Out(1),
                "taken": In(count_bits(depth)),
            }
        )


class Tile(Block):
    """A Tensorcore tile: the TensorDash tile (`sparsity` = rows or both) or its dense baseline (none).

    Timing: docs/tile.md says exactly what happens in each cycle. A stream of T steps takes from ceil(T / depth) to T
    cycles of schedules (baseline: T); the next one follows without a bubble. Results are valid `output_latency` cycles
    after the last schedule.

    Parameters
    ----------
    config : TileConfig
        The tile's configuration.

    Members
    -------
    a : In(StepsSignature), one per column
    b : In(StepsSignature), one per row
        Inputs; all of them move together.
    out : Out(stream of beat_layout)
        Blocks of results, row 0 first.
    c : In(stream of beat_layout)
        Only with `initial`: the C of each stream.
    clear, and counters and flags
        As docs/tile.md.

    Raises
    ------
    TypeError
        If `config` is not a TileConfig.

    Source: paper, Fig. 7 and section III-A, "Composing TensorDash Cores".
    """

    def __init__(self, config: TileConfig) -> None:
        if not isinstance(config, TileConfig):
            raise TypeError(f"config must be a TileConfig, not {config!r}")
        self.config = config
        depth = config.window_depth
        super().__init__(
            {
                "a": In(StepsSignature(config.a_format.width, config.lanes, depth)).array(config.columns),
                "b": In(StepsSignature(config.b_format.width, config.lanes, depth)).array(config.rows),
                "out": Out(stream.Signature(beat_layout(config.out_rows, config.columns))),
                **({"c": In(stream.Signature(beat_layout(config.out_rows, config.columns)))} if config.initial else {}),
                **counter_members(config.rows),
            },
            identity=(config,),
        )
        self.latency = config.stages - 1
        numerics = config.numerics
        self.output_latency = self.latency + 2 + (adds_c(numerics) and numerics.result == "fp32")
        self.connectivity = Connectivity(config.options, lanes=config.lanes, depth=depth)
        self._pes_by_place: dict[tuple[int, int], Block] = {}
        self._frozen = Signal(name="frozen")
        self._overflows = Signal(config.rows * config.columns, name="overflows")
        self._pe_controls = Signal(3, name="pe_controls")

    def elaborate(self, platform):
        """Ports, then the array of PEs, then the pipeline's controls, the drain and the counters."""
        m = Module()
        config = self.config
        schedulers = {"none": 0, "rows": config.rows, "both": config.rows * config.columns}[config.sparsity]
        self.control = Control(
            ports=config.rows + config.columns,
            schedulers=schedulers,
            depth=config.window_depth,
            full_window=config.needs_full_window,
            initial=config.initial,
            ring=config.ring,
        )
        self.counters = Counters(
            rows=config.rows,
            depth=config.window_depth,
            selections=schedulers * config.lanes or 1,
            weight=1 if schedulers else config.rows * config.lanes,
        )
        self._made = self.control.scheduled.replicate(config.window_depth)
        self.drain = Drain(rows=config.rows, columns=config.columns, out_rows=config.out_rows, numerics=config.numerics)
        m.submodules.control = self.control.place(platform)
        m.submodules.counters = self.counters.place(platform)
        m.submodules.drain = self.drain.place(platform)

        a_ports = [self._port(m, platform, "a", i) for i in range(config.columns)]
        b_ports = [self._port(m, platform, "b", i) for i in range(config.rows)]
        array = {"none": self._dense, "rows": self._rows, "both": self._both}[config.sparsity]
        array(m, platform, a_ports, b_ports)
        self._pipeline(m)
        errors = self._initial(m, platform) if config.initial else [Const(0)] * len(FLAGS)
        self._count(m, [*a_ports, *b_ports], errors)
        return m

    def _port(self, m: Module, platform, side: str, index: int):
        """Connect a port; return its flags and staging buffer."""
        config = self.config
        port = getattr(self, side)[index]
        fmt = config.a_format if side == "a" else config.b_format
        needs_zeros = config.sparsity == "both" or (config.sparsity == "rows" and side == "b")
        flags = OperandFlags(fmt=fmt, lanes=config.lanes, depth=config.window_depth, zeros=needs_zeros)
        kind = StagingRing if config.ring else StagingBuffer
        staging = kind(width=fmt.width, lanes=config.lanes, depth=config.window_depth)
        m.submodules[f"{side}_flags_{index}"] = flags.place(platform)
        m.submodules[f"{side}_staging_{index}"] = staging.place(platform)
        place = index if side == "a" else config.columns + index
        m.d.comb += [
            flags.steps.eq(port.steps),
            staging.steps.eq(port.steps),
            staging.write.eq(self.control.write) if config.ring else staging.refill.eq(self.control.refill),
            self.control.available[place].eq(port.available),
            self.control.last[place].eq(port.last),
            port.taken.eq(self.control.taken),
        ]
        return flags, staging

    def _pes(self, m: Module, platform, kind: type, **parameters):
        """Place the PEs of a kind and wire what all kinds share; yields (row, column, pe)."""
        config = self.config
        hold, clear, take = self._pe_controls
        for row in range(config.rows):
            for column in range(config.columns):
                pe = kind(stages=config.stages, numerics=config.numerics, **parameters)
                m.submodules[f"pe_{row}_{column}"] = pe.place(platform)
                self._pes_by_place[row, column] = pe
                m.d.comb += [
                    pe.hold.eq(hold),
                    pe.clear.eq(clear),
                    pe.take.eq(take),
                    self.drain.blocks[row][column].eq(pe.block),
                    self._overflows[row * config.columns + column].eq(pe.overflow),
                ]
                yield row, column, pe

    def _dense(self, m: Module, platform, a_ports, b_ports) -> None:
        """Every pair of the step in the operand registers is multiplied."""
        lanes = self.config.lanes
        valid = self.control.scheduled
        for row, column, pe in self._pes(m, platform, PE, lanes=lanes):
            m.d.comb += [
                pe.a.eq(a_ports[column][1].window[0]),
                pe.b.eq(b_ports[row][1].window[0]),
                pe.active.eq(valid.replicate(lanes)),
            ]
        m.d.comb += [
            self.counters.selected.eq(valid),
            *(self.counters.row_advance[row].eq(self.control.advance) for row in range(self.config.rows)),
        ]

    def _rows(self, m: Module, platform, a_ports, b_ports) -> None:
        """Each row schedules on its B window and muxes B for its PEs."""
        config, connectivity = self.config, self.connectivity
        rows = []
        for row, (flags, staging) in enumerate(b_ports):
            scheduler = RowScheduler(connectivity, ring=config.ring)
            mux = OperandMux(width=config.b_format.width, connectivity=connectivity, ring=config.ring)
            m.submodules[f"scheduler_{row}"] = scheduler.place(platform)
            m.submodules[f"b_mux_{row}"] = mux.place(platform)
            m.d.comb += [
                scheduler.nonzero.eq(flags.nonzero),
                scheduler.refill.eq(self.control.refill),
                scheduler.eligible_next.eq(self.control.eligible_next),
                scheduler.scheduled.eq(self.control.scheduled),
                *([scheduler.head.eq(self.control.head)] if config.ring else []),
                mux.window.eq(staging.window),
                mux.select.eq(scheduler.select),
                self.control.advances[row].eq(scheduler.advance),
                self.counters.row_advance[row].eq(scheduler.advance & self._made),
                self.counters.selected[row * config.lanes : (row + 1) * config.lanes].eq(scheduler.active),
            ]
            rows.append((scheduler, mux))
        for row, column, pe in self._pes(m, platform, ScheduledPE, connectivity=connectivity, ring=config.ring):
            scheduler, mux = rows[row]
            m.d.comb += [
                pe.a_window.eq(a_ports[column][1].window),
                pe.select.eq(scheduler.select),
                pe.b.eq(mux.operands),
                pe.active.eq(scheduler.active),
            ]

    def _both(self, m: Module, platform, a_ports, b_ports) -> None:
        """Each PE schedules on the windows of its row and column."""
        config = self.config
        row_advances: list[list] = [[] for _ in range(config.rows)]
        for row, column, pe in self._pes(
            m, platform, SelfScheduledPE, connectivity=self.connectivity, ring=config.ring
        ):
            index = row * config.columns + column
            a_flags, a_staging = a_ports[column]
            b_flags, b_staging = b_ports[row]
            row_advances[row].append(pe.advance)
            m.d.comb += [
                pe.a_window.eq(a_staging.window),
                pe.b_window.eq(b_staging.window),
                pe.a_nonzero.eq(a_flags.nonzero),
                pe.b_nonzero.eq(b_flags.nonzero),
                pe.refill.eq(self.control.refill),
                pe.eligible_next.eq(self.control.eligible_next),
                pe.scheduled.eq(self.control.scheduled),
                *([pe.head.eq(self.control.head)] if config.ring else []),
                self.control.advances[index].eq(pe.advance),
                self.counters.selected[index * config.lanes : (index + 1) * config.lanes].eq(pe.active),
            ]
        for row, advances in enumerate(row_advances):
            least = advances[0]
            for advance in advances[1:]:
                least = least & advance
            m.d.comb += self.counters.row_advance[row].eq(least & self._made)

    def _pipeline(self, m: Module) -> None:
        """Carry each schedule's marks to its accumulation, and freeze there when a block has no place to go."""
        first, ends = self.control.starts, self.control.ends
        for stage in range(self.latency):
            marks = Signal(2, name=f"marks_{stage}")
            with m.If(~self._frozen):
                m.d.sync += marks.eq(Cat(first, ends))
            first, ends = marks
        due_ends = Signal()
        # Without a stage in between, the schedule that is due is the one that this cycle makes unless frozen.
        m.d.comb += [
            due_ends.eq(ends if self.latency else self.control.ends_next),
            self._frozen.eq(due_ends & ~self.drain.free),
            self.control.frozen.eq(self._frozen),
            self.drain.take.eq(due_ends & self.drain.free),
            self._pe_controls.eq(Cat(self._frozen, first & ~self._frozen, self.drain.take)),
        ]

    def _initial(self, m: Module, platform) -> list:
        """Hold C until it is wanted; return what it adds to each of the flags."""
        config = self.config
        at_once = starts_from_c(config.numerics)
        store = InitialStore(
            rows=config.rows,
            columns=config.columns,
            out_rows=config.out_rows,
            at_once=at_once,
            floating=isinstance(config.a_format, FloatFormat),
        )
        m.submodules.initial_store = store.place(platform)
        wiring.connect(m, wiring.flipped(self.c), store.c)
        m.d.comb += [self.control.startable.eq(store.available), store.starts.eq(self.control.starts)]
        if at_once:
            m.d.comb += store.pop.eq(self._pe_controls[1])
            for (row, column), pe in self._pes_by_place.items():
                m.d.comb += pe.c.eq(store.values[row][column])
            return [store.wrong_last, store.non_finite, Const(0)]
        m.d.comb += [store.pop.eq(self.drain.moves), self.drain.c.eq(store.values)]
        return [store.wrong_last, store.non_finite, self.drain.overflow]

    def _count(self, m: Module, ports, errors: list) -> None:
        counters, control = self.counters, self.control
        entering = control.write if self.config.ring else control.entering
        entering_special = Cat((flags.non_finite & entering).any() for flags, _ in ports)
        m.d.comb += [
            counters.advance.eq(control.advance),
            counters.frozen.eq(self._frozen),
            counters.starved.eq(control.starved),
            counters.limited.eq(control.limited),
            counters.raised.eq(
                Cat(control.protocol_error, entering_special.any(), self._overflows.any()) | Cat(errors)
            ),
            counters.clear.eq(self.clear),
            *(getattr(self, name).eq(getattr(counters, name)) for name in (*COUNTERS, "row_wait", *FLAGS)),
        ]
        wiring.connect(m, self.drain.out, wiring.flipped(self.out))
