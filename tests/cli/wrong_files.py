"""The input files of the table of wrong inputs; most of them are wrong."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_runtime.program_folder.folder import build_folder
from tensordash_runtime.program_folder.single import plan_operation
from tensordash_runtime.program_folder.storage import write_folder
from tensordash_sim.lowering import MatrixProduct
from tensordash_sim.trace import TraceWriter

TEXTS = {
    "good.toml": "[tile]\nrows = 4\n",
    "unknown.toml": "[tile]\nrow = 4\n",
    "table.toml": "[core]\nrows = 4\n",
    "core.toml": "[core]\nbuffer = 32\n",
    "no_table.toml": "tile = 4\n",
    "tables.toml": "[[tile]]\nrows = 4\n",
    "lanes.toml": "[tile]\nlanes = 0\n",
    "broken.toml": "[tile]\nrows = \n",
    "twice.toml": "[tile]\nrows = 4\nrows = 4\n",
    "nul.toml": "[tile]\nrows = 4\x00\n",
    "mark.toml": "\ufeff[tile]\nrows = 4\n",
    "digits.toml": f"[tile]\nrows = {'9' * 5000}\n",
    "deep.toml": f"x = {'[' * 5000}",
    "outside.toml": "[tile]\nconnectivity = [[0, 0], [4, 0]]\n",
    "twins.toml": "[tile]\nconnectivity = [[0, 0], [1, 1], [1, -3]]\n",
    "first.toml": "[tile]\nconnectivity = [[1, 0], [0, 0]]\n",
    "chip.toml": "[chip]\ntiles = 2\n",
    "no_chip.toml": "[chip]\ntiles = 0\n",
    "chip_key.toml": "[memory]\nbank = 4\n",
    "chip_number.toml": "[energy]\nscratchpad_pj = -1\n",
    "words.npz": "not an archive",
    "words.npy": "not an array",
    "empty.npy": "",
    "zip.npy": "PK\x03\x04 not an archive",
    "words.lib": "this is no Liberty file\n",
    "empty.lib": "",
    "words.lef": "these are no shapes\n",
    "train.py": "",
}

HEAD = "library (toy) { capacitive_load_unit (1, pf);\n"
INVERTER = 'cell (INV) { area : 1; pin(A) { direction : input; capacitance : 0.002; } pin(Y) { function : "!A"; } }\n'
NAND = """cell (NAND) { area : 2; pin(A) { direction : input; } pin(B) { direction : input; }
    pin(Y) { function : "!(A B)"; } }\n"""
FLIP_FLOP = """cell (DFF) { area : 6; ff (IQ, IQN) { next_state : "D"; }
    pin(D) { direction : input; } pin(Q) { function : "IQ"; } }\n"""
LIBRARIES = {
    "bare.lib": f"{HEAD}}}\n",
    "no_flip_flop.lib": f"{HEAD}{INVERTER}{NAND}}}\n",
    "no_nand.lib": f"{HEAD}{INVERTER}{FLIP_FLOP}}}\n",
    "no_inverter.lib": f"{HEAD}{NAND}{FLIP_FLOP}}}\n",
    "open.lib": f"{HEAD}{INVERTER}{NAND}{FLIP_FLOP}",
}

LINEAR = MatrixProduct(batch=1, samples=9, in_features=30, out_features=5)
STREAM = np.tile([True, False, True, False], (4, 100, 1))


def make_files(folder: Path) -> None:
    """Write all files."""
    for name, text in {**TEXTS, **LIBRARIES}.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("binary.toml", "binary.lib"):
        (folder / name).write_bytes(b"\xff\xfe\x00")
    (folder / "a_folder").mkdir()
    (folder / "taken" / "tensordash.v").mkdir(parents=True)
    (folder / "make.folder").mkdir()
    (folder / "make.folder" / "Makefile").write_text("all:\n")
    _make_program_folders(folder)
    _make_operands(folder)
    _make_streams(folder)
    _make_traces(folder)


def _make_program_folders(folder: Path) -> None:
    product = MatrixProduct(batch=1, samples=1, in_features=4, out_features=4)
    config = load_any_preset("core")
    assert isinstance(config, CoreConfig)
    plan, values = plan_operation(config, product, "AxW")
    for name, base in (("low", 0x1000), ("good", 0x10000), ("high", 0x20000)):
        write_folder(build_folder(plan, values, base=base), folder / f"{name}.folder")
    for name in ("config.toml", "initial.bin", "program.c"):
        with (_copy(folder, f"{name}.changed", "good.folder") / name).open("ab") as file:
            file.write(b"\n")
    for name in ("program.c", "manifest.json"):
        (_copy(folder, f"{name}.missing", "good.folder") / name).unlink()
    results = _copy(folder, "expected.bin.cut", "good.folder") / "expected.bin"
    results.write_bytes(results.read_bytes()[:-1])
    a, w = np.zeros((2, 1, 1, 4)), np.zeros((2, 1, 4, 4))
    np.savez(folder / "no_array.npz")
    np.savez(folder / "no_batch.npz", A=a[:0], W=w[:0])
    for name, number in (("nan", np.nan), ("large", 70000)):
        w[1, 0, 0, 0] = number
        np.savez(folder / f"{name}_batch.npz", A=a, W=w)


def _make_operands(folder: Path) -> None:
    a = b = np.ones((4, 3, 4), np.float16)
    c, integers = np.ones((4, 4), np.float32), np.full((4, 3, 4), -128, np.int64)
    archives: dict[str, dict[str, Any]] = {
        "good": {"a": a, "b": b},
        "lacks": {"a": a},
        "extra": {"a": a, "b": b, "d": a},
        "with_c": {"a": a, "b": b, "c": c},
        "c_shape": {"a": a, "b": b, "c": c[:, :3]},
        "c_batch": {"a": a, "b": b, "c": c[np.newaxis]},
        "c_signed": {"a": a, "b": b, "c": c.astype(np.int32)},
        "c_wide": {"a": a, "b": b, "c": np.full((4, 4), 1 << 32, np.uint64)},
        "int8_c_floats": {"a": integers, "b": integers, "c": c},
        "int8_c_large": {"a": integers, "b": integers, "c": np.full((4, 4), 1 << 31, np.int64)},
        "int8_large": {"a": integers, "b": -integers},
        "rows": {"a": a, "b": b[:3]},
        "columns": {"a": a[:3], "b": b},
        "lanes": {"a": a[..., :3], "b": b},
        "flat": {"a": a[0, 0], "b": b},
        "steps": {"a": a, "b": b[:, :2]},
        "batches": {"a": np.stack([a] * 2), "b": np.stack([b] * 3)},
        "one_batch": {"a": np.stack([a] * 2), "b": b},
        "nothing": {"a": a[:, :0], "b": b[:, :0]},
        "signed": {"a": a, "b": b.astype(np.int32)},
        "wide": {"a": a, "b": np.full((4, 3, 4), 1 << 16, np.uint32)},
        "texts": {"a": a, "b": np.array(["x"])},
        "objects": {"a": a, "b": np.array([None], dtype=object)},
    }
    for name, arrays in archives.items():
        np.savez(folder / f"{name}.npz", **arrays)
    np.save(folder / "single.npy", a)
    (folder / "cut.npz").write_bytes((folder / "good.npz").read_bytes()[:-30])


def _make_streams(folder: Path) -> None:
    arrays = {
        "stream": STREAM,
        "three": STREAM[:3],
        "floats": STREAM.astype(np.float32),
        "a[0]": STREAM.astype(np.int8),
        "flat": STREAM[0],
        "short": STREAM[:, :99],
        "objects": np.array([None], dtype=object),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    data = (folder / "stream.npy").read_bytes()
    (folder / "cut.npy").write_bytes(data[:-1])
    (folder / "header.npy").write_bytes(data.replace(b"(4, 100, 4), ", b"(4, 10**9), ", 1))
    huge = data.replace(b"(4, 100, 4), }          ", b"(4, 10000000000000, 4), }", 1)
    (folder / "huge.npy").write_bytes(huge)


def _make_traces(folder: Path) -> None:
    random = np.random.default_rng(0)
    masks = {name: random.random(LINEAR.shapes[name]) < 0.5 for name in "AW"}
    with TraceWriter(folder / "run.trace") as writer, writer.step(0) as step:
        step.record("fc", "AxW", LINEAR, masks)
    with TraceWriter(folder / "empty.trace") as writer, writer.step(0):
        pass
    edits: dict[str, Callable[[Any], Any]] = {
        "newer.trace": lambda index: index.update(version=[2, 0]),
        "foreign.trace": lambda index: index.update(format="zip"),
        "edited.trace": lambda index: index["steps"][0]["records"][0].update(layer="fd"),
        "keyless.trace": lambda index: index.pop("steps"),
    }
    for name, edit in edits.items():
        index = _copy(folder, name) / "index.json"
        document = json.loads(index.read_text())
        edit(document)
        index.write_text(json.dumps(document))
    (_copy(folder, "cut.trace") / "index.json").write_text("{")
    for chunk in _copy(folder, "lost.trace").rglob("mask-*/c/0"):
        chunk.unlink()
    for chunk in _copy(folder, "flipped.trace").rglob("mask-*/c/0"):
        data = chunk.read_bytes()
        chunk.write_bytes(bytes([data[0] ^ 1]) + data[1:])


def _copy(folder: Path, name: str, source: str = "run.trace") -> Path:
    return Path(shutil.copytree(folder / source, folder / name))
