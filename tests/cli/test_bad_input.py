"""Wrong use and wrong input: exit status 2, one line that says what is wrong and what is allowed, nothing written."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tensordash_cli.main import run

GOOD_A, GOOD_B = np.ones((4, 3, 4), np.float16), np.ones((4, 3, 4), np.float16)


def make_files(folder: Path) -> None:
    """The inputs that the cases name."""
    texts = {
        "unknown.toml": "[tile]\nrow = 4\n",
        "table.toml": "[core]\nrows = 4\n",
        "lanes.toml": "[tile]\nlanes = 0\n",
        "broken.toml": "[tile]\nrows = \n",
        "outside.toml": "[tile]\nconnectivity = [[0, 0], [4, 0]]\n",
        "twins.toml": "[tile]\nconnectivity = [[0, 0], [1, 1], [1, -3]]\n",
        "first.toml": "[tile]\nconnectivity = [[1, 0], [0, 0]]\n",
        "words.npz": "not an archive",
        "words.lib": "this is no Liberty file\n",
        "empty.lib": "",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "binary.toml").write_bytes(b"\xff\xfe\x00")
    np.savez(folder / "good.npz", a=GOOD_A, b=GOOD_B)
    np.savez(folder / "lacks.npz", a=GOOD_A)
    np.savez(folder / "extra.npz", a=GOOD_A, b=GOOD_B, d=GOOD_A)
    c = np.ones((4, 4), np.float32)
    np.savez(folder / "with_c.npz", a=GOOD_A, b=GOOD_B, c=c)
    np.savez(folder / "c_shape.npz", a=GOOD_A, b=GOOD_B, c=c[:, :3])
    np.savez(folder / "c_batch.npz", a=GOOD_A, b=GOOD_B, c=c[np.newaxis])
    np.savez(folder / "c_signed.npz", a=GOOD_A, b=GOOD_B, c=c.astype(np.int32))
    np.savez(folder / "c_wide.npz", a=GOOD_A, b=GOOD_B, c=np.full((4, 4), 1 << 32, np.uint64))
    integers = np.full((4, 3, 4), -128, np.int64)
    np.savez(folder / "int8_c_floats.npz", a=integers, b=integers, c=c)
    np.savez(folder / "int8_c_large.npz", a=integers, b=integers, c=np.full((4, 4), 1 << 31, np.int64))
    np.savez(folder / "int8_large.npz", a=integers, b=-integers)
    np.savez(folder / "rows.npz", a=GOOD_A, b=np.ones((3, 3, 4), np.float16))
    np.savez(folder / "steps.npz", a=GOOD_A, b=np.ones((4, 2, 4), np.float16))
    np.savez(folder / "nothing.npz", a=np.ones((4, 0, 4), np.float16), b=np.ones((4, 0, 4), np.float16))
    np.savez(folder / "signed.npz", a=GOOD_A, b=np.ones((4, 3, 4), np.int32))
    np.savez(folder / "wide.npz", a=GOOD_A, b=np.full((4, 3, 4), 1 << 16, np.uint32))
    np.savez(folder / "objects.npz", a=GOOD_A, b=np.array([None], dtype=object))
    np.save(folder / "single.npy", GOOD_A)
    (folder / "a_folder").mkdir()


CASES = {
    "no such command": ("frobnicate", "frobnicate"),
    "unknown option": ("generate --frob -o out", "--frob"),
    "no output": ("generate", "--output"),
    "unknown key": ("generate unknown.toml -o out", r"unknown key tile\.row: allowed are rows, columns"),
    "unknown table": ("generate table.toml -o out", "unknown key core"),
    "lanes 0": ("generate lanes.toml -o out", r"lanes must be an integer from 2 to 32, not 0"),
    "not TOML": ("generate broken.toml -o out", r"not valid TOML: .*line 2"),
    "not text": ("generate binary.toml -o out", "binary.toml: not a text file"),
    "option outside": ("generate outside.toml -o out", r"\[4, 0\] lies outside the window: step must be from 1 to 3"),
    "options coincide": ("generate twins.toml -o out", r"\[1, 1\] and \[1, -3\] coincide on 4 lanes"),
    "first option": ("generate first.toml -o out", r"must begin with \[0, 0\], not \[1, 0\]"),
    "missing file": ("generate missing.toml -o out", "cannot read the configuration missing.toml: No such file"),
    "unknown preset": ("generate --preset best -o out", "preset must be one of paper, dense"),
    "file and preset": ("generate lanes.toml --preset paper -o out", "exclude each other"),
    "bad setting": ("generate --set rows -o out", "a setting must look like tile.rows=8, not 'rows'"),
    "wrong type": ("generate --set tile.rows=four -o out", "rows must be an integer from 1 to 16, not 'four'"),
    "depth 7": ("generate --set tile.depth=7 -o out", "depth must be an integer from 2 to 6, not 7"),
    "format": (
        "generate --set tile.format=fp64 -o out",
        r"tile\.format must be .* or one of bf16, fp16, fp8_e4m3, fp8_e5m2, int8, not 'fp64'",
    ),
    "format of a side": ("generate --set tile.format.a=e4m3 -o out", r"tile\.format must have the keys a and b, not a"),
    "integers with floats": (
        "generate --set tile.format.a=int8 --set tile.format.b=fp16 -o out",
        "int8 on both, not a = int8 and b = fp16",
    ),
    "accumulator": (
        "generate --set tile.accumulator=kulisch -o out",
        "or one of ampere, exact, hopper, volta, not 'kulisch'",
    ),
    "bf16 exact": ("generate --set tile.format=bf16 -o out", r"tile\.accumulator must be fused for bf16 \(volta,"),
    "bf16 on one side": (
        "generate --set tile.format.a=fp16 --set tile.format.b=bf16 -o out",
        r"tile\.accumulator must be fused for bf16",
    ),
    "int8 fused": (
        "generate --set tile.format=int8 --set tile.accumulator=volta -o out",
        r"tile\.accumulator must be exact for int8, not fused",
    ),
    "int8 headroom": (
        "generate --set tile.format=int8 --set tile.headroom_bits=20 -o out",
        r"tile\.headroom_bits must be an integer from 0 to 16 for int8, whose results are INT32, not 20",
    ),
    "few fraction bits": (
        "generate --set tile.accumulator.fused=7 -o out",
        r"tile\.accumulator\.fused must be an integer from 8 to 64, not 7",
    ),
    "many fraction bits": ("generate --set tile.accumulator={fused=65} -o out", "from 8 to 64, not 65"),
    "rounding": (
        "generate --set tile.accumulator.fused=23 --set tile.accumulator.rounding=up -o out",
        r"tile\.accumulator\.rounding must be one of nearest, zero, not 'up'",
    ),
    "rounding alone": ("generate --set tile.accumulator.rounding=zero -o out", "not a table of rounding"),
    "sparsity": ("generate --set tile.sparsity=columns -o out", "sparsity must be one of both, none, rows"),
    "paper pattern elsewhere": ("generate --set tile.lanes=8 -o out", r'"paper" is for tile.lanes = 4 and tile.depth'),
    "output rows": ("generate --set tile.out_rows=3 -o out", "out_rows must divide tile.rows = 4, not 3"),
    "C input": ("generate --set tile.initial=yes -o out", "initial must be true or false, not 'yes'"),
    "name": ("generate --name 4x4 -o out", "must be a letter followed by"),
    "output is a file": ("generate -o lanes.toml", "must be a folder"),
    "bench": ("verify --bench frob", "bench must be one of scheduler"),
    "bench of a sparse tile": ("verify --preset dense --bench scheduler", "bench must be one of"),
    "simulator": ("verify --simulator spice --bench pe", "simulator must be one of auto"),
    "effort": ("verify --effort 0", "--effort"),
    "missing operands": ("verify --operands missing.npz -o out.npz", "cannot read the operands missing.npz"),
    "unreadable operands": ("verify --operands words.npz -o out.npz", "words.npz: not an .npz file"),
    "npy operands": ("verify --operands single.npy -o out.npz", "single.npy"),
    "pickled operands": ("verify --operands objects.npz -o out.npz", "objects.npz: not an .npz file of plain arrays"),
    "operand missing": ("verify --operands lacks.npz -o out.npz", "must be the arrays a and b .*, not a$"),
    "operand too many": ("verify --operands extra.npz -o out.npz", "must be the arrays a and b .*, not a, b, d"),
    "C missing": (
        "verify --set tile.initial=true --operands good.npz -o out.npz",
        r"good.npz: operands must be the arrays a, b and c \(tile.initial = true\), not a, b",
    ),
    "C not expected": (
        "verify --operands with_c.npz -o out.npz",
        r"with_c.npz: operands must be the arrays a and b \(tile.initial = false\), not a, b, c",
    ),
    "C shape": (
        "verify --set tile.initial=true --operands c_shape.npz -o out.npz",
        r"c_shape.npz: c must have shape \(rows=4, columns=4\), not \(4, 3\)",
    ),
    "C batch": (
        "verify --set tile.initial=true --operands c_batch.npz -o out.npz",
        r"c must have shape \(rows=4, columns=4\), not \(1, 4, 4\)",
    ),
    "C signed": ("verify --set tile.initial=true --operands c_signed.npz", "c must be an array of fp32 bit patterns"),
    "C wide": ("verify --set tile.initial=true --operands c_wide.npz", r"c must hold fp32 bit patterns below 2\*\*32"),
    "C floats for int8": (
        "verify --set tile.initial=true --set tile.format=int8 --operands int8_c_floats.npz",
        "c must be an array of int32 bit patterns .* or of signed integers, not of float32",
    ),
    "C beyond INT32": (
        "verify --set tile.initial=true --set tile.format=int8 --operands int8_c_large.npz",
        "c must be from -2147483648 to 2147483647, not 2147483648",
    ),
    "floats for int8": (
        "verify --set tile.format=int8 --operands good.npz -o out.npz",
        "a must be an array of int8 bit patterns .* or of signed integers, not of float16",
    ),
    "beyond int8": ("verify --set tile.format=int8 --operands int8_large.npz", "b must be from -128 to 127, not 128"),
    "wide for fp8": ("verify --set tile.format=fp8_e4m3 --operands wide.npz", r"below 2\*\*8, not 65536"),
    "operand rows": ("verify --operands rows.npz -o out.npz", r"rows.npz: b must have shape \(rows=4.*not \(3, 3, 4\)"),
    "operand steps": ("verify --operands steps.npz -o out.npz", r"b must have as many steps as a \(3\), not 2"),
    "no steps": ("verify --operands nothing.npz -o out.npz", "at least one step"),
    "signed operands": ("verify --operands signed.npz -o out.npz", "b must be an array of fp16 bit patterns"),
    "wide operands": ("verify --operands wide.npz -o out.npz", r"below 2\*\*16, not 65536"),
    "output without operands": ("verify -o out.npz", "--output needs --operands"),
    "output nowhere": ("verify --operands good.npz -o nowhere/out.npz", "must be in a folder that exists"),
    "output is a folder": ("verify --operands good.npz -o a_folder", "must be a file, not the folder a_folder"),
    "waves of all": ("verify --waves run.vcd", "--waves needs one --bench"),
    "bench and operands": ("verify --bench pe --operands good.npz", "exclude each other"),
    "everything and one": ("prove --all --preset paper", "--all takes no CONFIG, --preset or --set"),
    "everything but one key": ("prove --all --set tile.rows=2", "--all takes no CONFIG, --preset or --set"),
    "proofs into a file": ("prove -o lanes.toml", "--output must be a folder, not the file lanes.toml"),
    "no solver at all": ("prove --jobs 0", "--jobs"),
    "missing library": ("synth --liberty missing.lib", "missing.lib"),
    "not a library": ("synth --liberty words.lib", "words.lib"),
    "empty library": ("synth --liberty empty.lib", "empty.lib"),
    "library is a folder": ("synth --liberty a_folder", "a_folder"),
    "dense only": ("synth --preset dense", "sparsity"),
    "clock": ("synth --clock 0", "--clock"),
    "sweep": ("synth --sweep 1,x", "--sweep must be periods in ns from 0.05 to 100"),
    "sweep and clock": ("synth --sweep 1 --clock 2", "--clock does not go with --sweep"),
    "sweep and target": ("synth --sweep 1 --target ecp5", "--sweep and --target exclude each other"),
    "mutants of what": ("mutate --component counter", "--component must be one of scheduler, .*, not 'counter'"),
    "mutants of a dense tile": ("mutate --preset dense", "tile.sparsity must be"),
    "equivalence and sweep": ("synth --sweep 1 --equivalence", "--sweep and --equivalence exclude each other"),
    "equivalence and power": ("synth --equivalence --no-power", "--power does not go with --equivalence"),
    "netlist and operands": ("verify --netlist --operands good.npz", "--netlist goes with"),
    "netlist on verilator": ("verify --netlist --simulator verilator", "--netlist runs the bench tile on icarus"),
    "target": ("synth --target virtex", "--target must be one of ecp5, not 'virtex'"),
    "dense target": ("synth --target ecp5 --preset dense", "sparsity"),
    "demo output": ("demo -o lanes.toml", "must be a folder"),
    "demo preset": ("demo --preset best -o out", "preset must be one of"),
    "demo dense": ("demo --preset dense -o out", "--preset must be a sparse tile without a C input, not dense"),
    "unknown preset shown": ("presets best", "preset must be one of"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", CASES)
def test_exit_2_with_one_line(case: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments, expected = CASES[case]
    before = sorted(folder.rglob("*"))
    with pytest.raises(SystemExit) as stop:
        run(arguments.split())
    out, err = capfd.readouterr()
    assert stop.value.code == 2, err
    assert out == ""
    lines = [line for line in err.splitlines() if line.strip()]
    assert len(lines) == 1, err
    assert lines[0].startswith("tensordash: ")
    assert re.search(expected, lines[0]), lines[0]
    assert sorted(folder.rglob("*")) == before


def test_installed_command(tmp_path: Path) -> None:
    """The console script itself, not the function behind it."""
    command = Path(sys.executable).with_name("tensordash")
    result = subprocess.run(
        [command, "generate", "missing.toml", "-o", "out"], cwd=tmp_path, capture_output=True, text=True
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()
