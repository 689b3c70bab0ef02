"""Test that wrong input ends with exit status 2, one line with the error and the allowed values, and no file."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tensordash_cli.main import run

from .wrong_files import make_files

CASES: dict[str, dict[str, list[str]]] = tomllib.loads(
    (Path(__file__).parent / "wrong_inputs.toml").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the input files of all cases; no case may change a file."""
    folder = tmp_path_factory.mktemp("wrong")
    make_files(folder)
    return folder


def contents(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return every file and folder, with its size and modification time."""
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize(
    ("command", "case"), [(command, case) for command, cases in CASES.items() for case in cases], ids=str
)
def test_bad_input_exits_with_2_and_one_line(
    command: str, case: str, files: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, expected = CASES[command][case]
    monkeypatch.chdir(files)
    before = contents(files)
    with pytest.raises(SystemExit) as stop:
        run([*([] if command == "command" else [command]), *shlex.split(arguments)])
    out, err = capfd.readouterr()
    assert stop.value.code == 2, err
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.startswith("tensordash: ")
    assert "Traceback" not in err
    assert re.search(expected, err.rstrip()), err
    assert contents(files) == before


def test_number_of_cases() -> None:
    assert sum(map(len, CASES.values())) >= 60


def test_installed_command(tmp_path: Path) -> None:
    """Run the installed console script, not the function that it calls."""
    command = Path(sys.executable).with_name("tensordash")
    result = subprocess.run(
        [command, "generate", "missing.toml", "-o", "out"], cwd=tmp_path, capture_output=True, text=True
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()
