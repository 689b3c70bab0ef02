"""Test the source distribution, and its wheel, in a new environment."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import tensordash
from tensordash import load_preset
from tensordash.emission.verilog import generate

ROOT = Path(__file__).parents[1]
MAX_BASE_BYTES = 150_000_000
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
NOT_COUNTED = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
"""Beginnings of the names that packages have in site-packages."""


def call(*command: str | Path, cwd: Path) -> str:
    """Run a command that cannot import the checkout."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        [str(each) for each in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution with the pinned hatchling, and from it the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    builder = folder / "builder"
    call(sys.executable, "-m", "venv", builder, cwd=folder)
    pip = (builder / "bin" / "python", "-m", "pip", "--disable-pip-version-check")
    backend = next(line for line in (ROOT / "pyproject.toml").read_text().splitlines() if line.startswith("requires ="))
    found = subprocess.run([*pip, "install", "-q", backend.split('"')[1]], cwd=folder, capture_output=True, check=False)
    if found.returncode:
        pytest.skip("no package index: hatchling cannot be installed")
    call(builder / "bin" / "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    (source,) = folder.glob("*.tar.gz")
    call(*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, source, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


def test_wheel_generates(wheel: Path, tmp_path: Path) -> None:
    """Only the wheel is installed; its requirements come from the tests' environment."""
    venv = tmp_path / "venv"
    call(sys.executable, "-m", "venv", "--without-pip", venv, cwd=tmp_path)
    call(sys.executable, "-m", "pip", "--python", venv, "install", "-q", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "tests.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    python = venv / "bin" / "python"
    where = call(python, "-c", "import tensordash, tensordash_cli; print(tensordash.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(packages)
    assert tensordash.__version__ in call(venv / "bin" / "tensordash", "--version", cwd=tmp_path)
    for preset in ("paper", "core"):
        call(venv / "bin" / "tensordash", "generate", "--preset", preset, "-o", preset, cwd=tmp_path)
    generate(load_preset("paper"), tmp_path / "expected")
    for file in (tmp_path / "expected").iterdir():
        assert (tmp_path / "paper" / file.name).read_bytes() == file.read_bytes(), file.name
    assert list((tmp_path / "core").glob("*.v"))
    assert "1.7" in call(venv / "bin" / "tensordash", "simulate", "--random", "0.5", "--steps", "20000", cwd=tmp_path)


def size(folder: Path) -> int:
    """Return the bytes of the files in a site-packages, bytecode included."""
    counted = [each for each in folder.iterdir() if not each.name.startswith(NOT_COUNTED)]
    files = [file for each in counted for file in ([each] if each.is_file() else each.rglob("*"))]
    return sum(file.stat().st_size for file in files if file.is_file())


@pytest.mark.slow
@pytest.mark.parametrize("program", PYTHONS)
def test_base_is_small(wheel: Path, tmp_path: Path, program: str) -> None:
    """The base install from the package index, on each available Python."""
    python = shutil.which(program)
    if python is None or subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip(f"no {program} on the PATH")
    venv = tmp_path / "venv"
    call(python, "-m", "venv", venv, cwd=tmp_path)
    call(venv / "bin" / "python", "-m", "pip", "install", "-q", "--only-binary", ":all:", wheel, cwd=tmp_path)
    (packages,) = venv.glob("lib/python*/site-packages")
    assert size(packages) <= MAX_BASE_BYTES
    run = venv / "bin" / "tensordash"
    call(run, "generate", "--preset", "core", "-o", "core", cwd=tmp_path)
    assert "1.7" in call(run, "simulate", "--random", "0.5", "--steps", "20000", cwd=tmp_path)
    done = subprocess.run([run, "synth"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "tensordash: synth needs the extra synth: pip install '.[synth]'\n",
    )
