"""Sum the values that rounding changed, by layer and operand, and warn of losses."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from .errors import RoundingError
from .jobs import ExecutedOperation
from .records import Contracted, Totals

__all__ = ["OperandSums", "operand_sums", "require_rounding", "rounding_warnings"]


class OperandSums(NamedTuple):
    """Sums over the contractions of one operand of a layer's operation. `saturated` is None if it was not counted."""

    values: int = 0
    zeros: int = 0
    flushed: int = 0
    saturated: int | None = None
    non_finite: int = 0

    @property
    def flushed_share(self) -> float:
        """Share of the tensors' non-zero values that rounding made zero."""
        return self.flushed / max(1, self.values - self.zeros)


Key = tuple[str, str, str]
"""Layer, operation and operand."""


def operand_sums(contractions: Iterable[Contracted]) -> dict[Key, OperandSums]:
    """Return sums for each layer, operation and operand, in order of first appearance."""
    found: dict[Key, OperandSums] = {}
    for each in contractions:
        for name, counts in each.executed.operands.items():
            before = found.get((each.layer, each.operation, name), OperandSums())
            saturated = before.saturated
            if counts.saturated is not None:
                saturated = (saturated or 0) + counts.saturated
            found[each.layer, each.operation, name] = OperandSums(
                before.values + counts.values,
                before.zeros + counts.zeros,
                before.flushed + counts.flushed,
                saturated,
                before.non_finite + counts.non_finite,
            )
    return found


def rounding_warnings(sums: Mapping[Key, OperandSums], totals: Totals) -> Iterator[str]:
    """Yield a warning each for flushed values, saturated values and non-finite operands, if any exist."""
    if totals.flushed:
        non_zeros = sum(each.values - each.zeros for each in sums.values())
        place, worst = max(sums.items(), key=lambda item: item[1].flushed_share)
        warning = (
            f"warning: rounding flushed {totals.flushed:,} of {non_zeros:,} non-zero values to zero, "
            f"at most {_percent(worst.flushed_share)} of {_describe(place)}"
        )
        if not totals.uncounted:
            warning += (
                f". Speedups and cycles count the tensors' own zeros; with flushed zeros the speedup is "
                f"{totals.flushed_speedup:.2f}, the tile's {totals.flushed_tile_speedup:.2f}"
            )
        yield warning
    if totals.saturated:
        place, worst = max(sums.items(), key=lambda item: item[1].saturated or 0)
        yield (
            f"warning: rounding saturated {totals.saturated:,} finite values, most of them {worst.saturated:,} of "
            f'{_describe(place)}; scaling="auto" avoids that'
        )
    if totals.non_finite:
        yield f"warning: {totals.non_finite:,} of {totals.contractions:,} contractions had non-finite operands"


def require_rounding(layer: str, operation: str, executed: ExecutedOperation, flush_limit: float) -> None:
    """Check that rounding lost no more of a contraction's operands than allowed.

    Parameters
    ----------
    layer, operation : str
        Names of the layer and its operation, for the message.
    executed : ExecutedOperation
        The contraction.
    flush_limit : float
        Share of an operand's non-zero values that rounding may make zero.

    Raises
    ------
    RoundingError
        If rounding made a larger share zero, or saturated a value. Formats with scales are not checked.
    """
    for name, counts in executed.operands.items():
        place = _describe((layer, operation, name))
        if counts.saturated is None:
            continue
        if counts.saturated:
            raise RoundingError(
                f"rounding saturated {counts.saturated:,} of {counts.values:,} values of {place}: "
                f'use scaling="auto", or a format with a wider range'
            )
        if counts.flushed_share > flush_limit:
            raise RoundingError(
                f"rounding flushed {counts.flushed:,} of {counts.values - counts.zeros:,} non-zero values of {place} "
                f"to zero, a share above flush_limit = {flush_limit:g}: raise flush_limit, or use "
                f'scaling="auto" or a format with a wider range'
            )


def _describe(place: Key) -> str:
    layer, operation, operand = place
    return f"{operand} in {operation} of {layer}" if layer else f"{operand} in {operation}"


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 else f"{share:.1e}"
