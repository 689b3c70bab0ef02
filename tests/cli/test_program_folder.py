"""Test `tensordash compile` and `tensordash run`."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tensordash import extras
from tensordash_cli.soc import MARKER

from .called import call

SYSTEM = {"Makefile": "", "soc.v": "", MARKER[0]: MARKER[1]}
"""Files in place of a system's, which take seconds to render."""
LAYER = "compile --preset core --channels 6 --filters 5 --samples 3 -o out"


def test_a_layer(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out, _ = call(LAYER, capfd)
    assert out.startswith("out: 1 program, 3 tensors, 4096 bytes of memory\nestimated: ")
    for executor in ("emulator", "golden"):
        out, _ = call(f"run out --on {executor}", capfd)
        assert out == f"out on {executor}: 3 tensors bit-equal after 1 program\n"
    out, _ = call("run out --preset core --json", capfd)
    assert json.loads(out) == {"executor": "emulator", "programs": 1, "tensors": 3, "cycles": None}


def test_a_core_at_an_address(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    call(LAYER, capfd)
    for options, message in (
        ("--on mmio", "--on mmio and --address go together"),
        ("--address unix:core", "--on mmio and --address go together"),
        ("--on mmio --address core", "--address: address must be unix:PATH, tcp:HOST:PORT or uio:"),
        ("--on mmio --address unix:core", "address unix:core: cannot connect to a core's server: No such file"),
    ):
        _, err = call(f"run out {options}", capfd, status=2)
        assert message in err


def test_json_lists_the_files(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    document = json.loads(call(f"{LAYER} --json", capfd)[0])
    assert sorted(document["files"]) == sorted(map(str, Path("out").iterdir()))
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert document["expected"] == manifest["expected"]
    assert document["digest"] == manifest["configuration"]["digest"]


def test_options_change_the_operands(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    call(f"{LAYER} --zeros 1 --seed 3 --base 0x20000", capfd)
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert manifest["memory"]["base"] == 0x20000
    assert not np.frombuffer(Path("out/expected.bin").read_bytes(), np.uint16)[:24].any()


def test_a_difference_exits_1(folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder has the expected contents of another seed, with their correct checksum."""
    call(f"{LAYER} --seed 1", capfd)
    other, name = Path("out/expected.bin").read_bytes(), "expected.bin"
    checksum = json.loads(Path("out/manifest.json").read_text())["files"][name]
    call(LAYER, capfd)
    manifest = json.loads(Path("out/manifest.json").read_text())
    manifest["files"][name] = checksum
    Path("out/manifest.json").write_text(json.dumps(manifest))
    Path("out/expected.bin").write_bytes(other)
    _, err = call("run out", capfd, status=1)
    assert err.startswith("tensordash: out on emulator: A: ")
    assert "values differ, the first is value 0" in err


def test_another_core_exits_2(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    call(LAYER, capfd)
    _, err = call("run out --set core.buffer=32", capfd, status=2)
    assert "out must be compiled for the core's configuration" in err


def test_a_training_step(folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A system has the C files of its program only, and a folder those of its last compilation."""
    monkeypatch.setattr(
        "tensordash_cli.soc.render_soc",
        lambda *arguments: {**SYSTEM, **{f"program/{name}": text for name, text in arguments[2].items()}},
    )
    call("compile --model mlp --batch 8 --momentum 0.5 -o out", capfd)
    out, _ = call("run out", capfd)
    assert out.endswith("tensors bit-equal after 2 programs\n")
    assert Path("out/host.c").is_file()
    call("soc --program out -o soc --steps 1", capfd)
    assert {path.name for path in Path("soc/program").iterdir()} == {
        *("host.c", "program.c", "program.h", "steps.c", "steps.h")
    }
    call(LAYER, capfd)
    assert not Path("out/host.c").exists()
    Path("out/host.c").write_text("no file of the folder")
    call("soc --program out -o soc", capfd)
    assert {path.name for path in Path("soc/program").iterdir()} == {"program.c", "program.h"}
    for name in ("program.c", "program.h"):
        assert Path("soc/program", name).read_bytes() == Path("out", name).read_bytes()


def interrupt_before(name: str) -> Callable[[Path, Path], Path]:
    """Return `Path.replace` with an interruption before it replaces a file of this name."""
    replace = Path.replace

    def interrupt(path: Path, target: Path) -> Path:
        if path.name == name:
            raise KeyboardInterrupt
        return replace(path, target)

    return interrupt


def test_an_interrupted_soc(folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`make` has no Makefile after an interruption, and the next command replaces the files."""
    monkeypatch.setattr("tensordash_cli.soc.render_soc", lambda *_: {**SYSTEM})
    call("soc -o soc", capfd)
    for new, last in itertools.product((False, True), (*SYSTEM, "picorv32.v")):
        output = f"before-{last}" if new else "soc"
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", interrupt_before(last))
            _, err = call(f"soc -o {output}", capfd, status=130)
        assert err.endswith("tensordash: interrupted\n")
        assert not Path(output, "Makefile").exists()
        call(f"soc -o {output}", capfd)
        assert Path(output, "Makefile").is_file()


EXECUTORS = ["emulator", "golden", pytest.param("verilator", marks=pytest.mark.slow)]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_step_in_bf16(executor: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """All executors give the same bits. The preset `core` is another core, and a tile cannot run it."""
    call("compile --preset core-bf16 --model mlp --batch 4 -o out", capfd)
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert {each["format"] for each in manifest["tensors"]} == {"bf16", "fp32", "int32"}
    out, _ = call(f"run out --on {executor} --preset core-bf16", capfd)
    assert out.startswith(f"out on {executor}: {len(manifest['tensors'])} tensors bit-equal after 2 programs")
    _, err = call("run out --preset core", capfd, status=2)
    assert err.startswith("tensordash: out must be compiled for the core's configuration f7fded416beb3182, not for ")
    _, err = call("compile --preset paper-bf16 --model mlp -o other", capfd, status=2)
    assert err.startswith("tensordash: the configuration must be a core, not the tile paper-bf16: --preset core, ")
    assert not Path("other").exists()


def test_settings_of_a_step(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The manifest has AdamW's rate and decay, and the loss scale of the first step."""
    arguments = "--optimizer adamw --rate 0.5 --weight-decay 0.25 --loss-scale 64 --dynamic-loss-scale"
    call(f"compile --model mlp --batch 4 {arguments} -o out", capfd)
    manifest = json.loads(Path("out/manifest.json").read_text())
    (first, *_) = (each["parameters"] for each in manifest["host_calls"] if each["function"] == "adamw")
    assert (first["rate"], first["keep"], first["gradient_scale"]) == (0.5, 1 - 0.5 * 0.25, 1)
    scale = next(each for each in manifest["tensors"] if each["name"] == "loss_scale")
    begin = scale["address"] - manifest["memory"]["base"]
    assert np.frombuffer(Path("out/initial.bin").read_bytes()[begin:][:4], np.float32) == 64
    assert any(each["function"] == "update_scale" for each in manifest["host_calls"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--model mlp --optimizer adam", "'adam' is not one of 'sgd', 'adamw'"),
        ("--model mlp --optimizer adamw --momentum 0.5", "--momentum goes with --optimizer sgd, not with adamw"),
        ("--model mlp --loss-scale 3", "loss_scale must be a power of two, not 3.0"),
        ("--model mlp --loss-scale nan --dynamic-loss-scale", "loss_scale must be a power of two, not nan"),
        ("--model mlp --loss-scale inf", "loss_scale must be a power of two, not inf"),
        ("--model mlp --rate 2", "'--rate': must be a number from 0 to 1, not '2'"),
        ("--model mlp --weight-decay nan", "'--weight-decay': must be a number from 0 to 1, not 'nan'"),
        ("--channels 4 --filters 4 --base 0x10001", "memory.base must be a multiple of 4096, not 0x10001"),
        ("--channels 4 --filters 4 --memory-bytes 100", "memory must have 4096 bytes for the tensors and "),
        ("--channels 4 --filters 4 --momentum 0", "--momentum goes with --model, not with a layer"),
        ("--channels 4 --filters 4 --dynamic-loss-scale", "--dynamic-loss-scale goes with --model, not with a layer"),
    ],
)
def test_options_are_checked(arguments: str, message: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _, err = call(f"compile {arguments} -o out", capfd, status=2)
    assert message in err
    assert not Path("out").exists()


OF_A_LAYER = ("--samples 1", "--channels 4", "--filters 4", "--size 4", "--kernel 1", "--stride 1", "--padding 0")


@pytest.mark.parametrize("option", [*OF_A_LAYER, "--op AxW", "--rows A", "--zeros 0.5"])
def test_layer_options_are_refused_with_a_model(option: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Explicit default values are also wrong."""
    _, err = call(f"compile --model mlp {option} -o out", capfd, status=2)
    assert f"{option.split()[0]} goes with a layer, not with --model" in err


@pytest.mark.parametrize(
    ("arguments", "user", "extra"), [("--model mlp", "compile --model", "trace"), ("", "compile", "simulate")]
)
def test_all_missing_extras_are_named_at_once(
    arguments: str, user: str, extra: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda module: False)
    _, err = call(f"compile {arguments} -o out", capfd, status=2)
    assert err == f"tensordash: {user} needs the extra {extra}: pip install '.[{extra}]'\n"
