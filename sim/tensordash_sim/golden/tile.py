"""The tile, cycle by cycle, as docs/tile.md defines it."""

from collections.abc import Sequence
from dataclasses import replace

from tensordash.configuration.config import TileConfig

from .control import Control
from .datapath import Datapath, Work
from .ports import COUNTER_LIMIT, Beat, Counters, Offer, Outputs
from .scheduler import TileSchedule

__all__ = ["Tile"]


class Tile:
    """A tile after reset; every call of `cycle` is one clock cycle.

    *Timing*: a stream's results reach the output two cycles after its last schedule is accumulated, `latency` + 2
    cycles after that schedule is made. A sum register adds one cycle, and an output buffer one. Earlier results that
    still wait at the output delay them further.

    Parameters
    ----------
    config : TileConfig
        The tile.

    Attributes
    ----------
    control : Control
        Window and schedules.
    datapath : Datapath
        Pipeline, accumulators, output and the store of C.
    counters : Counters
        The live counters. A test may set them, for instance close to `COUNTER_LIMIT`.
    copied : Counters
        With `counters` = "snapshot": the counters at the ports.
    protocol_error, non_finite, overflow, result_non_finite : bool
        Sticky flags.
    entered : int
        Steps that have entered since reset.

    Source
    ------
    docs/tile.md; section III-A, Fig. 7 of the paper.

    Examples
    --------
    One stream of one step, 1 * 2 in lane 0, through a 1 x 1 tile:

    >>> tile = Tile(TileConfig(rows=1, columns=1, pipeline=1))
    >>> a, b = Offer([[0x3C00, 0, 0, 0]], 1, last=True), Offer([[0x4000, 0, 0, 0]], 1, last=True)
    >>> tile.cycle([a], [b], out_ready=True).taken
    1
    >>> nothing = Offer()
    >>> for _ in range(3):
    ...     outputs = tile.cycle([nothing], [nothing], out_ready=True)
    ...     print(outputs.schedule_made, outputs.out_valid)
    True False
    False False
    False True
    >>> hex(outputs.out.values[0][0]), outputs.out.last, outputs.counters.cycles
    ('0x40000000', True, 1)
    """

    def __init__(self, config: TileConfig) -> None:
        if not isinstance(config, TileConfig):
            raise TypeError(f"config must be a TileConfig, not {config!r}")
        self.config = config
        self.control = Control(config)
        self.datapath = Datapath(config)
        self.reset()

    def reset(self) -> None:
        """Apply a clock edge with reset; `cycle` with `reset` also returns the outputs of that cycle."""
        self.control.reset()
        self.datapath.reset()
        self._clear()
        self.copied = self.counters
        self.entered = 0

    def _clear(self) -> None:
        self.counters = Counters(row_wait=(0,) * self.config.rows)
        self.protocol_error = self.non_finite = self.overflow = self.result_non_finite = False

    @property
    def shown(self) -> Counters:
        """The counters at the ports, if the tile has counter ports."""
        return self.copied if self.config.snapshot else self.counters

    def cycle(
        self,
        a: Sequence[Offer],
        b: Sequence[Offer],
        out_ready: bool,
        clear: bool = False,
        c: Beat | None = None,
        *,
        snapshot: bool = False,
        reset: bool = False,
    ) -> Outputs:
        """Simulate one clock cycle.

        Parameters
        ----------
        a, b : sequence of Offer
            Column side, one for each column, and row side, one for each row.
        out_ready : bool
            The consumer takes the output beat, if any.
        clear : bool
            Clear counters and flags at the end of this cycle.
        c : Beat or None
            The beat offered at the C input; it enters if `c_ready`.
        snapshot : bool
            Copy the counters.
        reset : bool
            Reset the tile in this cycle; no step enters.

        Returns
        -------
        Outputs
            The outputs before the clock edge.

        Raises
        ------
        ValueError
            If the offers do not fit the tile, or if the tile has no C input for C or no snapshot of its counters.
        """
        self._check(a, b, c, snapshot=snapshot)
        initial = self.datapath.initial
        c_ready = initial is not None and initial.ready and not reset
        decided = self.control.decide(may_start=initial is None or initial.blocks > 0)
        frozen = self.datapath.is_frozen(decided, out_ready)
        made = None if frozen else decided
        space = self.control.rows[0].space + (made.advance if made else 0)
        taken = 0 if reset else min(space, *(self.control.offered(offer) for offer in (*a, *b)))
        outputs = Outputs(
            taken=taken,
            out_valid=self.datapath.shown is not None,
            out=self.datapath.shown,
            c_ready=c_ready,
            counters=self.shown,
            protocol_error=self.protocol_error,
            non_finite=self.non_finite,
            overflow=self.overflow,
            result_non_finite=self.result_non_finite,
            idle=self.control.idle and self.datapath.empty,
            entry_line=self.entered % self.config.window_depth if self.config.ring else None,
            schedule=made,
            frozen=frozen,
        )
        if reset:
            self.reset()
            return outputs
        work = Work(self.control.operands(made), made.first, made.last) if made else None
        overflow, result_non_finite = self.datapath.clock(work, out_ready, frozen)
        self.entered += taken
        protocol_error, non_finite = self.control.clock(made, a, b, taken)
        c_error, c_non_finite = self._clock_c(made, c if c_ready else None)
        if snapshot:
            self.copied = self.counters
        if clear:
            self._clear()
        else:
            self.counters = self._count(made, frozen)
            self.protocol_error |= protocol_error | c_error
            self.non_finite |= non_finite | c_non_finite
            self.overflow |= overflow
            self.result_non_finite |= result_non_finite
        return outputs

    def _clock_c(self, made: TileSchedule | None, c: Beat | None) -> tuple[bool, bool]:
        """Clock the C store; return whether a beat that enters breaks the protocol, and whether it is not finite."""
        initial = self.datapath.initial
        if initial is not None and made is not None and made.first:
            initial.start()
        return (False, False) if initial is None or c is None else initial.push(c)

    def _count(self, made: TileSchedule | None, frozen: bool) -> Counters:
        """Return the counters after this cycle."""
        old = self.counters
        if made is None:
            if frozen:
                return replace(old, stall_output=_saturate(old.stall_output + 1))
            return replace(old, stall_input=_saturate(old.stall_input + 1))
        return replace(
            old,
            cycles=_saturate(old.cycles + 1),
            steps=_saturate(old.steps + made.advance),
            effectual=_saturate(old.effectual + made.consumed),
            input_limited=_saturate(old.input_limited + made.input_limited),
            row_wait=tuple(_saturate(sum(pair)) for pair in zip(old.row_wait, made.row_wait, strict=True)),
        )

    def _check(self, a: Sequence[Offer], b: Sequence[Offer], c: Beat | None, *, snapshot: bool) -> None:
        self._check_offers("a", "columns", a, self.config.columns)
        self._check_offers("b", "rows", b, self.config.rows)
        if c is not None:
            if self.datapath.initial is None:
                raise ValueError(f"c must be None, since the tile has no C input (initial = false), not {c}")
            self.datapath.initial.check(c)
        if snapshot and not self.config.snapshot:
            raise ValueError('snapshot must be False, since the tile has none (counters = "snapshot"), not True')

    def _check_offers(self, name: str, ports: str, offers: Sequence[Offer], count: int) -> None:
        if len(offers) != count:
            raise ValueError(f"{name} must be {ports}={count} offers, not {len(offers)}")
        for index, offer in enumerate(offers):
            if not 0 <= offer.available <= len(offer.steps):
                raise ValueError(
                    f"{name}[{index}].available must be from 0 to its {len(offer.steps)} steps, not {offer.available}"
                )


def _saturate(value: int) -> int:
    return min(value, COUNTER_LIMIT)
