"""One style for all plots: matplotlib figures of the evaluation, of `explore` and of the benches.

The colours match the report's style sheet on a light page; tests/sim/evaluation compares them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLORS", "LIGHT", "MUTED", "PAPER", "is_spread", "style", "use_integer_ticks"]

COLORS = ("#0072b2", "#c65102", "#00805c", "#a3408f", "#7a6a00", "#4b45b8", "#b3303f", "#4d6273")
"""Colours of series, in order."""
ROUNDS = (("o", "-"), ("s", "--"), ("^", "-."))
"""Marker and line style: one pair for each round of eight colours, so that no two series look alike."""
TEXT = "#16202c"
GRID = "#e4e8ed"
MUTED = "#566273"
"""Colour of secondary elements, such as axes."""
LIGHT = "#cdd4dd"
"""Colour of series for comparison."""
PAPER: dict[str, Any] = {"color": TEXT, "zorder": 5}
"""Style of markers for the paper's numbers."""
MAX_TICKS = 12
SPREAD = 50
"""Ratio of the largest to the smallest place from which an axis of whole numbers is logarithmic."""


@contextmanager
def style(salt: str) -> Iterator[None]:
    """Draw in this style, with the same bytes for the same numbers.

    Parameters
    ----------
    salt : str
        Salt of the hashes that name an SVG's elements.
    """
    from cycler import cycler
    from matplotlib.style import context

    series = [{"color": color, "marker": marker, "linestyle": line} for marker, line in ROUNDS for color in COLORS]
    settings = {
        "axes.axisbelow": True,
        "axes.edgecolor": MUTED,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.labelcolor": TEXT,
        "axes.prop_cycle": cycler(**{key: [each[key] for each in series] for key in series[0]}),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 9,
        "axes.titleweight": "bold",
        "figure.titlesize": 10,
        "figure.titleweight": "bold",
        "font.size": 8,
        "grid.color": GRID,
        "legend.fontsize": 7,
        "legend.frameon": False,
        "lines.linewidth": 1.4,
        "lines.markersize": 4,
        "savefig.dpi": 144,
        "savefig.facecolor": "white",
        "svg.hashsalt": salt,
        "text.color": TEXT,
        "xtick.color": MUTED,
        "xtick.labelcolor": TEXT,
        "ytick.color": MUTED,
        "ytick.labelcolor": TEXT,
    }
    with context(["default", settings]):
        yield


def is_spread(places: Sequence[float]) -> bool:
    """Return whether places are positive whole numbers with a ratio that needs a logarithmic axis.

    >>> is_spread([4, 16, 36, 144, 757]), is_spread([1, 2, 4, 8, 16]), is_spread([0.1, 0.9999])
    (True, False, False)
    """
    return all(_is_whole(place) and place > 0 for place in places) and max(places) >= SPREAD * min(places)


def use_integer_ticks(axes: "Axes", places: Sequence[float]) -> None:
    """Put ticks on whole numbers only, if all places on the x axis are whole.

    Parameters
    ----------
    axes : Axes
        Axes with data.
    places : sequence of numbers
        Places of the data on the x axis.
    """
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, ScalarFormatter

    if not places or not all(map(_is_whole, places)):
        return
    if is_spread(places):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_locator(NullLocator())
    if len(places) <= MAX_TICKS:
        axes.xaxis.set_major_locator(FixedLocator(sorted(places)))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(MAX_TICKS, integer=True))


def _is_whole(place: float) -> bool:
    return float(place).is_integer()
