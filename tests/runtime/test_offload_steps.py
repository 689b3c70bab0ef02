"""Test that the table of training steps in docs/runtime.md matches its bench."""

import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
BENCH = "offload_steps"
PAGE = ROOT / "docs" / "runtime.md"


def rows(bench: ModuleType) -> tuple[list[str], list[list[str]]]:
    """Return the lines of the table's head, and the cells of its rows."""
    region = PAGE.read_text(encoding="utf-8").partition(bench.BEGIN)[2].partition(bench.END)[0].strip()
    text, _, measured = region.partition("\n\n")
    assert re.fullmatch(r"Measured at commit [0-9a-f]{7,}, \d{4}-\d\d-\d\d\.", measured)
    table = text.splitlines()
    return table[:2], [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def test_page_lists_networks_and_macs(bench: ModuleType) -> None:
    head, table = rows(bench)
    assert head == bench.table([]).splitlines()
    networks = [(bench.NETWORKS[name][0], f"{bench.step_macs(name, 0) / 1e6:.1f}") for name in bench.NETWORKS]
    assert [(row[0], row[1]) for row in table] == networks
    assert all(float(macs) >= 20 for _, macs in networks)


def test_page_figures_are_consistent_and_meet_the_goal(bench: ModuleType) -> None:
    _, table = rows(bench)
    for name, macs, *cells in table:
        pytorch, uncounted, rate, slower, counted, counted_slower = (float(re.sub("[x,]", "", each)) for each in cells)
        assert rate == pytest.approx(float(macs) * 1e3 / uncounted, rel=0.05), name
        assert slower == pytest.approx(uncounted / pytorch, rel=0.15), name
        assert counted_slower == pytest.approx(counted / pytorch, rel=0.15), name
        assert rate >= bench.GOAL, name


def test_table_replaces_text_between_markers(bench: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{bench.BEGIN}\nold\n{bench.END}\nafter\n", encoding="utf-8")
    figures = bench.Figures("gpt", 30_000_000, 0.002, 0.3, 0.1)
    bench.write_page(page, bench.table([figures]))
    *_, row = bench.table([figures]).splitlines()
    assert row.endswith("| 30.0 | 2.0 | 100 | 300 | 50x | 300 | 150x |")
    text = page.read_text(encoding="utf-8")
    assert text == f"before\n{bench.BEGIN}\n{bench.table([figures])}\n{bench.END}\nafter\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vgg"], "NETWORK must be one of resnet, gpt, lstm, not vgg"),
        (["--repeats", "0"], "--repeats must be at least 1, not 0"),
        (["gpt", "--page", str(PAGE)], "--page must be left out unless all networks are measured"),
        (["--page", str(ROOT / "README.md")], "--page must be a file with the markers"),
        (["--page", "missing.md"], "not missing.md"),
    ],
)
def test_invalid_arguments(
    bench: ModuleType,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["offload_steps.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        bench.main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
