"""What pages say of docs/cost.json: a region between `<!-- cost: NAME -->` and `<!-- /cost -->` is a function here."""

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from core_cost_pages import core_table, core_words  # type: ignore[import-not-found]  # beside this script
from format_cost_pages import format_rows, format_words, quantiser_words  # type: ignore[import-not-found]
from scaling_picture import fitted  # type: ignore[import-not-found]

__all__ = ["PAGES", "written"]

PAGES = ("docs/cost.md", "docs/numerics.md", "docs/simulator.md", "README.md")
REGION = re.compile(r"(?<=<!-- cost: )([\w-]+)( -->\n).*?(?=<!-- /cost -->)", re.DOTALL)

Results = Mapping[str, Any]
ROWS = {
    "compute_cores": "compute cores",
    "staging_buffers": "staging buffers",
    "a_muxes": "A muxes",
    "schedulers_b_muxes": "schedulers, B muxes",
    "control": "control, drain, counters",
    "transposers": "transposer",
    "total": "total",
}
NAMES = {
    "paper": "`paper`",
    "recommended": "`recommended`",
    "recommended-2x8": "`recommended-2x8`",
    "paper-bf16": "`paper-bf16`",
    "paper-depth2": "`paper-depth2`",
    "paper-depth3": "`paper-depth3`",
    "paper-depth5": "`paper-depth5`",
    "fp8_e4m3": "`paper` in fp8_e4m3",
    "int8": "`paper` in int8",
    "both": "`paper`, sparsity both",
    "paper-16lane": "`paper-16lane`",
    "ring-3": "`recommended`, 3 steps (below)",
    "ring-3-16lane-9": "16 lanes, ring of 3 steps, offsets 0, 1, -1 (below)",
    "ring-3-16lane": "16 lanes, ring of 3 steps, offsets 0, 1 (below)",
}
# Of the project's first state; nothing measures them any more.
FIRST = {
    "paper": "| `paper`, first numbers | 11,720 | 2,731 | 14,450 | 1.233 | 825, 800 | 0.969 |",
    "paper-bf16": "| `paper-bf16`, first numbers | 11,595 | 2,738 | 14,334 | 1.236 | 467, 479 | 1.025 |",
    "paper-16lane": "| `paper-16lane`, first numbers | 46,472 | 8,710 | 55,181 | 1.187 | 732, 694 | 0.947 |",
}


def written(text: str, results: Results) -> str:
    """A page with its regions as the results have them.

    >>> written("<!-- cost: none -->\\nold\\n<!-- /cost -->", {})
    Traceback (most recent call last):
    KeyError: 'none'
    """
    return REGION.sub(lambda found: f"{found[1]}{found[2]}{REGIONS[found[1]](results)}\n", text)


# Figures


DESIGNS = ("tensordash", "baseline")


def _per_pe(document: Any, row: str, design: str = "tensordash") -> float:
    return float(document["components"][row][f"{design}_ge"] / (document["rows"] * document["columns"]))


def _clocks(document: Any) -> str:
    return ", ".join(f"{document[name]['max_frequency_mhz']:.0f}" for name in DESIGNS)


def _run(document: Any, operands: str) -> Any:
    (found,) = [run for run in document["power"] if run["operands"] == operands]
    return found


def _milliwatts(document: Any, operands: str, row: str, design: str = "tensordash") -> float:
    return 1000.0 * float(_run(document, operands)["watts"][row][design])


def _change(new: float, old: float) -> str:
    """In whole percents.

    >>> _change(105, 100), _change(92, 100)
    ('5% more', '8% less')
    """
    return f"{abs(new / old - 1):.0%} {'more' if new >= old else 'less'}"


def _module(document: Any, role: str) -> Any:
    """The module of a role that takes longest; its name may end in what tells it from others."""
    found = [each for name, each in document["modules"].items() if re.match(rf"tensordash_{role}($|__| )", name)]
    return max(found, key=lambda each: each["delay_ns"])


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in (heads, *rows)).replace(
        "\n", f"\n{'|---' * len(heads)}|\n", 1
    )


def _filled(*paragraphs: str) -> str:
    """Lines of the pages' width; an item of a list goes on further in."""
    return "\n".join(
        textwrap.fill(
            each,
            150,
            subsequent_indent="  " if each.startswith("- ") else "",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for each in paragraphs
    )


def _paragraphs(document: Any) -> list[str]:
    """Of `tensordash synth`: its head, the areas, powers, energies, a summary, notes."""
    found: list[str] = document["table"].split("\n\n")
    return found


# Regions of docs/cost.md


def now(results: Results) -> str:
    paper, ring = results["paper"], results["recommended"]
    words = {**ROWS, "compute_cores": "compute cores (PEs, one operand register per port)"}
    words |= {
        "staging_buffers": "staging buffers, beyond that register",
        "control": "control, drain, rounders, counters",
    }
    words["schedulers_b_muxes"] = "schedulers, zero flags, B muxes"

    def cell(figure: float) -> str:
        return f"{figure:,.0f}" if figure else "-"

    rows = [
        [word, *map(cell, (_per_pe(paper, row), _per_pe(ring, row), _per_pe(paper, row, "baseline")))]
        for row, word in words.items()
    ]
    added = [f"{each['tensordash']['added_ge_per_pe']:,.0f}" for each in (paper, ring)]
    return _table(["", "`paper`", "`recommended`", "baseline"], [*rows, ["beyond the baseline", *added, "-"]])


def presets(results: Results) -> str:
    heads = ["preset", "baseline", "added", "total", "ratio", "highest clock, MHz", "ratio"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name in (
        "paper",
        "recommended",
        "recommended-2x8",
        "ring-3",
        "paper-bf16",
        "paper-16lane",
        "ring-3-16lane-9",
        "ring-3-16lane",
    ):
        document = results[name]
        gates = [_per_pe(document, "total", "baseline"), document["tensordash"]["added_ge_per_pe"]]
        cells = [f"{each:,.0f}" for each in (*gates, _per_pe(document, "total"))]
        ratios = [f"{document['ratio'][each]:.3f}" for each in ("area", "clock")]
        lines += [FIRST[name]] if name in FIRST else []
        lines.append(f"| {' | '.join([NAMES[name], *cells, ratios[0], _clocks(document), ratios[1]])} |")
    return "\n".join(lines)


def table_iv(results: Results) -> str:
    blocks = [
        "\n".join([f"# tensordash synth --preset {name}", _paragraphs(results[name])[1]])
        for name in ("paper", "recommended")
    ]
    return "\n".join(["```", "\n\n".join(blocks), "```"])


def ring_of_three(results: Results) -> str:
    names = ("paper", "recommended", "ring-3")
    gains = [results[name]["speedup_at_half"] / results[name]["ratio"]["area"] for name in names]
    return _filled(
        "A ring of three steps is the smallest; it gives up speed for that. Speed per area at 50% zeros: "
        f"`paper` {gains[0]:.2f}, `recommended` {gains[1]:.2f}, three steps {gains[2]:.2f}:"
    )


def paths(results: Results) -> str:
    paper = results["paper"]
    mux, control, scheduler = (_module(paper, role)["delay_ns"] for role in ("operand_mux", "control", "row_scheduler"))
    return _filled(
        "At 2 ns both tiles end in the exact accumulator: a product's register, six stages of shifter, an addition of "
        "five numbers with one carry chain of 97 bits, the accumulator "
        f"({paper['tensordash']['delay_ns']:.2f} of 1.8 ns when mapped for area). In front of the multiplier there is "
        f"time for the mux ({mux:.2f} ns). The scheduling loop (control {control:.2f}, row scheduler {scheduler:.2f}) "
        "has its own share of the period."
    )


def sweep(results: Results) -> str:
    blocks = []
    for name in ("paper", "recommended"):
        table, fastest = results[f"sweep-{name}"]["table"].split("\n\n")[1:3]
        blocks.append(f"# tensordash synth --preset {name} --sweep 1,1.25,2\n{table}\n\n{fastest}")
    return "\n".join(["```", "\n\n".join(blocks), "```"])


def sweep_words(results: Results) -> str:
    designs = [
        [report[design]["tile_ge"] for report in results[f"sweep-{name}"]["reports"]]
        for name in ("paper", "recommended")
        for design in DESIGNS
    ]
    more = [at_800 / at_500 - 1 for _, at_800, at_500 in designs]
    return _filled(
        "`*`: misses the clock (a tenth of the period is kept for what is not counted) and is mapped to the least "
        f"delay. At 800 MHz the designs need {min(more):.0%} to {max(more):.0%} more gates than at 500, nearly all of "
        "it in the PE, so that the ratio falls. With `--sweep` modules are mapped within the clock where they can and "
        "to the least delay where not; mapping for speed tries both kinds of structure for every module."
    )


def power(results: Results) -> str:
    blocks = []
    for name in ("paper", "recommended"):
        found = _paragraphs(results[name])
        blocks.append(f"# tensordash synth --preset {name}\n{found[2]}\n\n{found[3]}")
    return "\n".join(["```", "\n\n".join(blocks), "```"])


def power_words(results: Results) -> str:
    paper, ring = results["paper"], results["recommended"]
    none, half, most, digits = "0% zeros", "50% zeros", "90% zeros", "digits trace"
    cores = [_milliwatts(paper, none, "compute_cores", design) for design in DESIGNS]
    there = [_run(each, none)["power_ratio"] - 1 for each in (paper, ring)]
    staged = _milliwatts(paper, none, "staging_buffers") / (
        _milliwatts(paper, none, "total") - _milliwatts(paper, none, "total", "baseline")
    )
    packed = [
        _change(*(_milliwatts(paper, operands, "compute_cores", design) for design in DESIGNS))
        for operands in (half, most)
    ]
    lost = [1 / _run(each, none)["energy_ratio"] - 1 for each in (paper, ring)]
    gains = [[_run(each, digits)[kind] for kind in ("energy_ratio", "paper_energy_ratio")] for each in (paper, ring)]
    idle = [[each["idle"]["share"][design] for design in DESIGNS] for each in (paper, ring)]
    return _filled(
        "- **The method, checked**: without zeros, the compute cores of both designs do the same, and take the same "
        f"({cores[0]:.1f} and {cores[1]:.1f} mW). OpenSTA (2.0.17) puts its own estimates, propagated from the inputs, "
        "over activities that are given for pins: it took 40% more power, and found differences where there are none. "
        "So nothing is an input of the netlist that it gets, and every pin's activity is asked for again.",
        f"- **The cost of being there** is {there[0]:.1%} for `paper` (the paper: 9%; the goal was 8%), {staged:.0%} "
        "of it the staging buffers: three steps of every row and column that shift. For `recommended` it is "
        f"{there[1]:.1%}: a ring writes one slot where the baseline writes its operand register, and nothing moves. "
        "What is left is in the muxes, whose selections now go round with the oldest step.",
        f"- **Packed lanes toggle more**, but little: at 50% zeros TensorDash's compute cores take {packed[0]} power "
        f"than the baseline's, at 90% {packed[1]}, since the window often runs dry. The rest of what keeps the energy "
        "ratio below the speedup is the staging buffers of `paper`. (The paper's definition of efficiency divides the "
        "speedup by the power ratio without zeros.)",
        f"- Without zeros TensorDash loses: {lost[0]:.0%} more energy for the same work (`paper`), {lost[1]:.0%} "
        "(`recommended`).",
        f"- On the digits trace `paper` gains {gains[0][0]:.2f}x, by the paper's definition {gains[0][1]:.2f}x (the "
        f"paper: 1.8x on its networks); `recommended` {gains[1][0]:.2f}x and {gains[1][1]:.2f}x.",
        f"- **A tile that waits** draws {idle[0][0]:.1%} of what it draws without zeros (`paper`; its baseline "
        f"{idle[0][1]:.1%}), `recommended` {idle[1][0]:.1%}. Nearly all that `paper` draws more than its baseline is "
        "in the slots of its staging buffers: they are written in every cycle in which they hold no step.",
        f"- The chip of Table III (256 tiles with their memories) is {paper['ratio']['chip']:.3f} times as large as "
        f"with baselines for `paper`, {ring['ratio']['chip']:.3f} for `recommended` (the paper: 1.048).",
    )


FORMATS = [name for name in NAMES if not name.startswith("ring")]


def formats(results: Results) -> str:
    areas, figures = [], []
    for name in FORMATS:
        document = results[name]
        cells = []
        for row in ROWS:
            sparse, dense = _per_pe(document, row), _per_pe(document, row, "baseline")
            cells.append(f"{sparse:,.0f}" + (f" ({dense:,.0f})" if dense else ""))
        ratio = document["ratio"]
        areas.append([NAMES[name], *cells, f"{ratio['area']:.3f}"])
        gains = [f"{each:.2f}" for each in ratio["energy"].values()]
        figures.append([NAMES[name], _clocks(document), f"{ratio['clock']:.3f}", f"{ratio['power']:.3f}", *gains])
    energies = [f"energy, {operands}" for operands in results["paper"]["ratio"]["energy"]]
    return "\n\n".join(
        [
            _table(["", *ROWS.values(), "ratio"], areas),
            _table(["", "highest clock, MHz", "ratio", "power ratio", *energies], figures),
        ]
    )


def formats_words(results: Results) -> str:
    half, most = "50% zeros", "90% zeros"
    bf16, int8 = results["paper-bf16"], results["int8"]
    gains = [[_run(each, operands)["energy_ratio"] for each in (bf16, int8)] for operands in (half, most)]
    falls = {design: [_fall(results[name], design) for name in ("paper", "paper-bf16", "int8")] for design in DESIGNS}
    sparse, dense = (", ".join(f"{each:.0%}" for each in falls[design]) for design in DESIGNS)
    staging, total = (_milliwatts(int8, half, row) for row in ("staging_buffers", "total"))
    wide = _run(results["paper-16lane"], "digits trace")
    return _filled(
        f"- **bf16 and int8 gain less energy** than fp16 (50% zeros: {gains[0][0]:.2f} and {gains[0][1]:.2f}; 90%: "
        f"{gains[1][0]:.2f} and {gains[1][1]:.2f}), because their baselines rest better on zeros. From no zeros to "
        f"90%, what the compute cores of fp16, bf16 and int8 take falls by {dense} in the baseline, and by {sparse} in "
        "TensorDash, whose are as busy per cycle as the streams allow. In int8 at 50% zeros the staging buffers of "
        f"`paper` take {staging:.1f} of {total:.1f} mW.",
        f"- int8's highest clock is {int8['ratio']['clock']:.2f} of its baseline's: its PE is faster than the "
        "scheduling loop.",
        f"- 16 lanes of 3 steps gain {wide['energy_ratio']:.2f}x on the digits trace, whose passes are short for 16 "
        f"lanes ({wide['speedup']:.2f}x the speed).",
    )


def _fall(document: Any, design: str) -> float:
    """By what share the power of the compute cores falls from no zeros to 90%."""
    none, most = (_milliwatts(document, zeros, "compute_cores", design) for zeros in ("0% zeros", "90% zeros"))
    return 1 - most / none


def library(results: Results) -> str:
    def energies(document: Any) -> str:
        return ", ".join(f"{gain:.2f}" for name, gain in document["ratio"]["energy"].items() if name != "0% zeros")

    other, own = results["osu018"], results["paper"]
    ratio, nangate = other["ratio"], own["ratio"]
    return _filled(
        "`tensordash synth --preset paper --liberty osu018_stdcells.lib --clock 5` (OSU 0.18 um, 32 cells, no clock "
        f"gates): area ratio {ratio['area']:.3f}, highest clock {ratio['clock']:.3f}, power without zeros "
        f"{ratio['power']:.3f}, energy at 50, 80 and 90% zeros and on the digits trace {energies(other)}; "
        f"{other['tensordash']['added_ge_per_pe']:,.0f} GE added. Nangate 45: {nangate['area']:.3f}, "
        f"{nangate['clock']:.3f}, {nangate['power']:.3f}; {energies(own)}."
    )


HEADS = {"lanes": "lanes, 4 steps, the paper's options", "depth": "depth, eight options"}


def scaling(results: Results) -> str:
    tables = []
    for parameter, points in results["scaling"].items():
        rows = [
            [n, f"{sparse:,.0f}", f"{dense:,.0f}", f"{sparse - dense:,.0f}", f"{sparse / dense:.3f}"]
            for n, (sparse, dense) in points.items()
        ]
        tables.append(_table([HEADS.get(parameter, parameter), "TensorDash", "baseline", "added", "ratio"], rows))
    return "\n\n".join(tables)


def scaling_words(results: Results) -> str:
    fits = []
    for parameter, points in results["scaling"].items():
        fit = fitted(parameter, added(points))
        over = f"{fit.slope:,.0f} {'/' if parameter in ('rows', 'columns') else '*'} {parameter}"
        sign = "+" if fit.constant >= 0 else "-"
        fits.append(f"{over} {sign} {abs(fit.constant):,.0f} (at most {fit.worst:.1%} off)")
    return _filled(f"Added per PE, fitted: {'; '.join(fits)}.")


def added(points: Mapping[str, Sequence[float]]) -> dict[int, float]:
    """Gates per PE beyond the baseline's."""
    return {int(n): sparse - dense for n, (sparse, dense) in points.items()}


# Regions of the other pages


def numerics(results: Results) -> str:
    return "\n".join(["```", results["numerics"]["table"], "```"])


def numerics_words(results: Results) -> str:
    slower = {
        (core["format"]["a"], core["accumulator"]): f"{core['ge']:,.0f}" for core in results["numerics-slower"]["cores"]
    }
    ratio = results["paper-bf16"]["ratio"]
    return _filled(
        f"With `--clock 3`, fp16 takes {slower['fp16', 'exact']} gates exact and {slower['fp16', 'volta']} as volta, "
        f"bf16 {slower['bf16', 'volta']} as volta, fp8_e4m3 {slower['fp8_e4m3', 'exact']} exact and "
        f"{slower['fp8_e4m3', 'volta']} as volta. Dense baseline and TensorDash tile have the same accumulators: "
        "`tensordash synth --preset paper-bf16` gives an area ratio of "
        f"{ratio['area']:.3f} and a clock ratio of {ratio['clock']:.3f}."
    )


def summary(results: Results) -> str:
    return "\n".join(["```", results["paper"]["table"], "```"])


def summary_of_recommended(results: Results) -> str:
    found = results["recommended"]
    ratio = found["ratio"]
    return _filled(
        "`--preset recommended` is smaller, faster and takes less power: its staging buffers are rings, in which a "
        f"value is written once and never shifted. Area {ratio['area']:.3f} of the baseline's, power without zeros "
        f"{ratio['power']:.3f}, energy {ratio['energy']['50% zeros']:.3f} at 50% zeros and "
        f"{ratio['energy']['digits trace']:.3f} on the digits trace. Its ports want step t on line t modulo 4 "
        "([docs/tile.md](docs/tile.md))."
    )


def explore(results: Results) -> str:
    return "\n".join(["```", results["explore"]["table"], "```"])


REGIONS: dict[str, Callable[[Results], str]] = {
    "now": now,
    "presets": presets,
    "table-iv": table_iv,
    "ring-of-three": ring_of_three,
    "paths": paths,
    "sweep": sweep,
    "sweep-words": sweep_words,
    "power": power,
    "power-words": power_words,
    "formats": formats,
    "formats-words": formats_words,
    "numbers": lambda results: _table(format_rows(results)[0], format_rows(results)[1:]),
    "numbers-words": lambda results: _filled(*format_words(results)),
    "quantiser": lambda results: _filled(quantiser_words(results)),
    "library": library,
    "scaling": scaling,
    "scaling-words": scaling_words,
    "numerics": numerics,
    "numerics-words": numerics_words,
    "summary": summary,
    "summary-recommended": summary_of_recommended,
    "explore": explore,
    "core": core_table,
    "core-words": lambda results: _filled(*core_words(results)),
}
