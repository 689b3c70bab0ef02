"""Test that `make soc-demo` exits with 1 at a difference, and that the pages match docs/soc.json."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
BENCH = "soc"
CHECKSUMS = np.array([[1, 2, 3], [4, 5, 6]], np.uint32)
PRINTED = """core f7fded416beb3182
step 1, loss 2.3074
cycles: programs 7783, of these asleep 5284, multiplying 3482, host calls 15000
  sgd: 15000 in 6 calls
bit-equal: 3 tensors, 640 bytes, checksum b0e02293
step 2, loss 2.3282
cycles: programs 7783, of these asleep 5284, multiplying 3476, host calls 15000
  sgd: 15000 in 6 calls
bit-equal: 3 tensors, 640 bytes, checksum 1558aca8
exit 0 after 90000 cycles
"""


def run(bench: ModuleType, folder: Path, patch: pytest.MonkeyPatch, printed: str, status: int) -> int:
    """Run the demonstration with a stub system that prints a text and exits."""
    (folder / "soc").mkdir()
    (folder / "printed").write_text(printed)
    (folder / "soc/Makefile").write_text(f"run:\n\t@cat ../printed; exit {status}\n")
    patch.setattr(bench, "FOLDER", folder)
    patch.setattr(bench, "require_modules", lambda *_: None)
    patch.setattr(bench, "build_system", lambda *_: None)
    patch.setattr(bench, "read_batches", lambda *_: [])
    patch.setattr(bench, "compute_checksums", lambda *_: CHECKSUMS)
    patch.setattr(sys, "argv", ["soc.py", "mlp", "--steps", "2"])
    return int(bench.main())


@pytest.mark.parametrize(
    ("right", "wrong", "status", "message"),
    [
        ("", "", 0, ""),
        ("bit-equal: 3 tensors, 640 bytes, checksum 1558aca8", "differs: 1.weight", 1, "differs: 1.weight"),
        ("checksum 1558aca8", "checksum 1558aca9", 0, "step 2 must have the emulator's"),
        ("bit-equal: 3", "bit-equal: 2", 0, "step 1 must have the emulator's"),
        ("step 2, loss", "not a step", 0, "must have compared 2 steps, not 1"),
    ],
)
def test_differences_are_found(
    right: str,
    wrong: str,
    status: int,
    message: str,
    bench: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = PRINTED.replace(right, wrong) if right else PRINTED
    assert (printed != PRINTED) == bool(right)
    assert run(bench, tmp_path, monkeypatch, printed, status) == bool(right)
    shown = capsys.readouterr()
    assert message in shown.err
    assert ("mlp: bit-equal, 3 tensors in each of 2 steps; loss 2.3074 to 2.3282" in shown.out) == (not right)


@pytest.mark.parametrize(("name", "extras"), [("soc", "soc and trace"), ("soc_fpga", "soc and synth")])
def test_missing_extras_are_named(
    name: str, extras: str, bench: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tensordash.extras.is_installed", lambda _: False)
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    with pytest.raises(SystemExit, match="2"):
        import_module(name).main()
    assert capsys.readouterr().err.startswith(f"python bench/{name}.py needs the extras {extras}: pip install")


def test_pages_match_the_measurements(bench: ModuleType) -> None:
    page = import_module("soc_page")
    results: dict[str, Any] = import_module("common").load_figures(page.RESULTS)
    assert list(results["networks"]) == list(bench.MODELS)
    assert all(results[name] for name in ("command", "commit", "date"))
    for path, part in ((page.PAGE, "tutorial"), (page.README, "readme")):
        text = path.read_text(encoding="utf-8")
        assert text == page.fill_page(text, results, part), "run python bench/soc_page.py"
    assert page.PICTURE.read_text(encoding="utf-8") == page.draw_picture(results), "run python bench/soc_page.py"


def test_cycles_of_a_step_are_complete(bench: ModuleType) -> None:
    """Each cycle is in one part: functions, programs, and the comparison."""
    page = import_module("soc_page")
    for figures in import_module("common").load_figures(page.RESULTS)["networks"].values():
        assert sum(page.parts_of_step(figures).values()) * figures["steps"] == pytest.approx(
            figures["all_cycles"], rel=1e-4
        )
        assert len(figures["loss"]) == figures["steps"]
