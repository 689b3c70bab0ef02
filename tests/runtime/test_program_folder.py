"""Test that program folders give the same bits on every executor, and that unusable folders give clear errors."""

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_runtime.errors import NoRoomError, ProgramFolderError
from tensordash_runtime.program_folder.building import PlanBuilder
from tensordash_runtime.program_folder.folder import ProgramFolder, build_folder, compare, run_folder
from tensordash_runtime.program_folder.single import plan_operation
from tensordash_runtime.program_folder.storage import load_folder, write_folder
from tensordash_runtime.program_folder.tensors import StepTensor, bias_tensor, groups_of
from tensordash_sim.compiler.images import TensorImage, layer_values
from tensordash_sim.compiler.layer import Layer
from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.lowering import Geometry, MatrixProduct

from ..sim.lowering.geometries import convolution
from .loaded_memory import check_on_golden_core

LAYER = convolution(batch=2, channels=(6, 5), size=(6, 6), kernel=(3, 3), padding=(1, 1))
GROUPED = convolution(batch=2, channels=(6, 4), size=(5, 7), kernel=(3, 2), stride=(2, 1), padding=(1, 0), groups=2)
GEOMETRIES: dict[str, Geometry] = {
    "convolution": LAYER,
    "grouped": GROUPED,
    "linear": MatrixProduct(batch=1, samples=5, in_features=6, out_features=7),
    "batch": MatrixProduct(batch=3, samples=5, in_features=6, out_features=7),
}
BASE = 0x10000


@pytest.fixture(scope="module")
def folder() -> ProgramFolder:
    plan, values = plan_operation(CoreConfig(), LAYER, "AxG")
    return build_folder(plan, values, base=BASE)


@pytest.fixture
def written(folder: ProgramFolder, tmp_path: Path) -> Path:
    write_folder(folder, tmp_path / "folder")
    return tmp_path / "folder"


def edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "manifest.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_plain_tensor_order_matches_compiler_images(geometry: Geometry) -> None:
    """Tensors in memory have the layout of the compiler's images."""
    random, config = np.random.default_rng(0), CoreConfig()
    values = {name: random.integers(1, 60000, geometry.shapes[name]).astype(np.uint16) for name in "AWG"}
    for operation in ("AxW", "WxG"):
        operands = {name: values[name] for name in operation if name != "x"}
        laid = {name: np.ascontiguousarray(layer_values(geometry, name, each)) for name, each in operands.items()}
        image = TensorImage(config, Memory(1 << 16), Layer.of(geometry), operation, laid)
        for name, bits in operands.items():
            tensor = StepTensor(name=name, shape=bits.shape, format="fp16", groups=groups_of(geometry, name))
            data = tensor.to_bytes(bits, config)
            assert data == image.memory.read(image.tensors[name], tensor.memory_bytes(config))
            assert (tensor.from_bytes(data, config) == bits).all()


@pytest.mark.parametrize("turned", [False, True])
def test_fp32_tensor_order_matches_formula(turned: bool) -> None:
    """The index in a group follows the formula of docs/program-folder.md."""
    geometry, config = GEOMETRIES["linear"], CoreConfig()
    bits = np.arange(1, 36, dtype=np.uint32).reshape(geometry.shapes["G"])
    tensor = StepTensor(name="G", shape=bits.shape, format="fp32", groups=groups_of(geometry, "G", turned=turned))
    data = tensor.to_bytes(bits, config)
    memory, lanes, half = np.frombuffer(data, np.uint32), 4, 2
    for position, channel in np.ndindex(5, 7):
        group = channel // lanes * 2 + position // lanes
        c, i = (position % lanes, channel % lanes) if turned else (channel % lanes, position % lanes)
        assert memory[group * 16 + c // half * half * lanes + i * half + c % half] == bits[0, position, channel]
    assert (tensor.from_bytes(data, config) == bits).all()


@pytest.mark.parametrize("operation", ["AxW", "WxG", "AxG"])
@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_golden_core_leaves_the_expected_memory(geometry: Geometry, operation: str) -> None:
    plan, values = plan_operation(CoreConfig(), geometry, operation)
    folder = build_folder(plan, values, base=BASE)
    memory = check_on_golden_core(folder)
    region = folder.memory_map.tensors["result"]
    memory.write(region.address, bytes([memory.read(region.address, 1)[0] ^ 1]))
    assert compare(folder, memory).startswith("result: 1 of ")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("buffer", "sizes"), [(1, (16, 16, 16)), (2, (24, 16, 24)), (4, (16, 32, 16))])
def test_operands_are_reloaded_after_regions_move(buffer: int, sizes: tuple[int, int, int]) -> None:
    """Biases move the buffer's regions, so that the second product's results overwrite operands of the first."""
    builder, random = PlanBuilder(CoreConfig(buffer=buffer)), np.random.default_rng(0)
    samples, in_features, out_features = sizes
    geometry = MatrixProduct(batch=1, samples=samples, in_features=in_features, out_features=out_features)
    for name in "AW":
        shape = geometry.shapes[name]
        tensor = StepTensor(name=name, shape=shape, format="fp16", groups=groups_of(geometry, name))
        builder.add_tensor(tensor, random.standard_normal(shape, np.float32))
    bias = bias_tensor(builder.config, "bias", out_features)
    builder.add_tensor(bias, random.standard_normal(out_features, np.float32))
    for result, biases in (("first", {}), ("second", {"bias": "bias"}), ("third", {})):
        builder.add_product(result, geometry, "AxW", {"A": "A", "W": "W", **biases}, result, rows="A")
    folder = build_folder(builder.build("three products"), builder.initial, base=BASE)
    assert len(folder.programs) == 1
    assert run_folder(folder, "golden")[1] == ""


def test_written_folder_is_read_back(folder: ProgramFolder, written: Path) -> None:
    assert load_folder(written, CoreConfig()) == folder
    words = (written / "initial.hex").read_text().split()
    assert b"".join(int(word, 16).to_bytes(16, "little") for word in words) == folder.initial


def test_c_has_the_initial_contents(folder: ProgramFolder, written: Path) -> None:
    """A C program writes the contents of `program.c`."""
    main = '#include <stdio.h>\n#include "program.h"\n'
    main += "int main(void) { fwrite(tensordash_initial, 1, TENSORDASH_PROGRAM_INITIAL_BYTES, stdout);\n"
    main += "return !(tensordash_calls[0].descriptors && TENSORDASH_TENSOR_RESULT < TENSORDASH_PROGRAM_TENSORS); }\n"
    (written / "main.c").write_text(main)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run(["gcc", *flags, "main.c", "program.c", "-o", "main"], cwd=written, check=True)
    assert subprocess.run([written / "main"], capture_output=True, check=True).stdout == folder.initial
    subprocess.run(["gcc", *flags, "-ffreestanding", "-c", "program.c"], cwd=written, check=True)


# Errors


def test_other_core_configuration(written: Path) -> None:
    other = load_any_preset("core-wide")
    assert isinstance(other, CoreConfig)
    with pytest.raises(ProgramFolderError, match=f"compiled for the core's configuration {other.digest}, not for "):
        load_folder(written, other)


def test_digest_mismatch(written: Path) -> None:
    edit(written, lambda document: document["configuration"].update(digest="0123456789abcdef"))
    with pytest.raises(ProgramFolderError, match="must have the digest of .*config.toml, .*, not '0123456789abcdef'"):
        load_folder(written)


def test_version_mismatch(written: Path) -> None:
    edit(written, lambda document: document.update(version=1))
    with pytest.raises(ProgramFolderError, match="must have version 2, not 1: compile it anew"):
        load_folder(written)


def test_no_program_folder(tmp_path: Path) -> None:
    with pytest.raises(ProgramFolderError, match="cannot read .*manifest.json: No such file"):
        load_folder(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(ProgramFolderError, match="not valid JSON"):
        load_folder(tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(ProgramFolderError, match="must be the manifest of a program folder"):
        load_folder(tmp_path)


def test_memory_too_small(folder: ProgramFolder) -> None:
    plan, values = plan_operation(CoreConfig(), LAYER, "AxG")
    size = folder.memory_map.size
    with pytest.raises(NoRoomError, match=f"memory must have {size} bytes for the .* of AxG, not {size - 1}"):
        build_folder(plan, values, base=BASE, memory_bytes=size - 1)
    build_folder(plan, values, base=BASE, memory_bytes=size)


@pytest.mark.parametrize("base", [0x10040, 0xFFF])
def test_misaligned_base(base: int) -> None:
    plan, values = plan_operation(CoreConfig(), LAYER, "AxG")
    with pytest.raises(ProgramFolderError, match=f"memory.base must be a multiple of 4096, not {base:#x}"):
        build_folder(plan, values, base=base)


def test_memory_beyond_the_bus() -> None:
    plan, values = plan_operation(CoreConfig(), LAYER, "AxG")
    with pytest.raises(ProgramFolderError, match=r"memory must end at 0x10000000000 \(core.address_bits = 40\)"):
        build_folder(plan, values, base=(1 << 40) - 4096)


NAMES = {"config.toml", "expected.bin", "initial.bin", "initial.hex", "program.c", "program.h"}


def test_the_manifest_has_all_files(written: Path) -> None:
    manifest = json.loads((written / "manifest.json").read_text())
    assert manifest["files"].keys() == NAMES
    assert {path.name for path in written.iterdir()} == {*NAMES, "manifest.json"}
    edit(written, lambda document: document["files"].pop("program.c"))
    with pytest.raises(ProgramFolderError, match=r"manifest.json must have the SHA-256 of .*program.c, .* in `files`"):
        load_folder(written)


@pytest.mark.parametrize("file", sorted(NAMES))
def test_damaged_contents(file: str, written: Path) -> None:
    """A file with a changed bit, without its last byte, or missing is refused."""
    data = (written / file).read_bytes()
    for changed in (bytes([data[0] ^ 1, *data[1:]]), data[:-1]):
        (written / file).write_bytes(changed)
        with pytest.raises(ProgramFolderError, match=f"{file} must have the SHA-256 in manifest.json: it was cut or"):
            load_folder(written)
    (written / file).unlink()
    with pytest.raises(ProgramFolderError, match=f"cannot read .*{file}: No such file"):
        load_folder(written)


@pytest.mark.parametrize("name", ["initial_bytes", "size"])
def test_size_mismatch(name: str, written: Path) -> None:
    edit(written, lambda document: document["memory"].update({name: document["memory"][name] + 4096}))
    edit(written, lambda document: document["memory"].update(size=max(document["memory"]["size"], 8192)))
    with pytest.raises(ProgramFolderError, match=f"memory.{name} in .*manifest.json must be "):
        load_folder(written)


def test_no_file_of_an_earlier_folder_remains(folder: ProgramFolder, written: Path) -> None:
    (written / "host.c").write_text("")
    (written / "main.c").write_text("")
    write_folder(folder, written)
    assert {path.name for path in written.iterdir()} == {*NAMES, "manifest.json", "main.c"}
    assert load_folder(written) == folder


@pytest.mark.parametrize("renames", range(7))
def test_an_interrupted_write_is_refused(renames: int, written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interruption after some of the renames leaves a folder that no command reads."""
    plan, values = plan_operation(CoreConfig(), LAYER, "AxG", seed=1)
    other, replace = build_folder(plan, values, base=BASE), Path.replace
    done: list[Path] = []

    def interrupt(path: Path, target: Path) -> Path:
        if len(done) == renames:
            raise KeyboardInterrupt
        done.append(target)
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_folder(other, written)
    with pytest.raises(ProgramFolderError):
        load_folder(written)
    assert not list(written.glob(".tensordash-*"))
    write_folder(other, written)
    assert load_folder(written) == other


def corrupt(folder: ProgramFolder, written: Path, index: int, change: Callable[[int], int]) -> None:
    """Change a descriptor and update the checksum."""
    region = folder.memory_map.programs[0]
    at = region.address - BASE + 64 * index
    data = bytearray(folder.initial)
    bits = change(int.from_bytes(data[at : at + 64], "little"))
    data[at : at + 64] = bits.to_bytes(64, "little")
    (written / "initial.bin").write_bytes(data)
    edit(written, lambda document: document["files"].update({"initial.bin": hashlib.sha256(data).hexdigest()}))


def test_corrupted_program(folder: ProgramFolder, written: Path) -> None:
    last = len(folder.descriptors(0)) - 1
    corrupt(folder, written, 0, lambda bits: bits | 1 << 511)
    with pytest.raises(ProgramFolderError, match=r"the core refuses descriptor 0 \(error reserved\)"):
        load_folder(written)
    corrupt(folder, written, 0, lambda bits: bits ^ 1 << 44)
    with pytest.raises(ProgramFolderError, match=r"descriptor 0 \(load\) must move a tensor of the memory map"):
        load_folder(written)
    corrupt(folder, written, last, lambda bits: folder.descriptors(0)[last - 1])
    with pytest.raises(ProgramFolderError, match="its last descriptor must be its only end"):
        load_folder(written)


def test_overlapping_regions(folder: ProgramFolder, written: Path) -> None:
    program = folder.memory_map.programs[0]

    def move(document: dict[str, Any]) -> None:
        document["tensors"][0]["address"] = program.address

    edit(written, move)
    name = next(iter(folder.plan.tensors))
    with pytest.raises(ProgramFolderError, match=f"({name} and program 0|program 0 and {name}) must not overlap"):
        load_folder(written)


def test_misaligned_tensor(written: Path) -> None:
    edit(written, lambda document: document["tensors"][0].update(address=BASE + 32))
    with pytest.raises(ProgramFolderError, match="address of G must be a multiple of 64, not 0x10020"):
        load_folder(written)


def test_tensor_outside_of_the_memory(folder: ProgramFolder, written: Path) -> None:
    edit(written, lambda document: document["tensors"][0].update(address=BASE + folder.memory_map.size))
    with pytest.raises(
        ProgramFolderError, match=f"G must be in the memory from 0x10000 to {BASE + folder.memory_map.size:#x}"
    ):
        load_folder(written)


def test_program_outside_of_the_initial_contents(folder: ProgramFolder, written: Path) -> None:
    size = folder.memory_map.size
    edit(written, lambda document: document["programs"][0].update(address=BASE + size - 64, descriptors=1))
    with pytest.raises(ProgramFolderError, match="program 0 must be in the initial contents"):
        load_folder(written)


def test_wrong_size(written: Path) -> None:
    edit(written, lambda document: document["tensors"][0].update(bytes=64))
    with pytest.raises(ProgramFolderError, match="bytes of G must be 1536, as its shape takes, not 64"):
        load_folder(written)


def test_missing_key(written: Path) -> None:
    edit(written, lambda document: document["programs"][0].pop("record"))
    with pytest.raises(ProgramFolderError, match="manifest.json cannot be used: it must have the key 'record'"):
        load_folder(written)


@pytest.mark.parametrize("rows", [0, 1, None])
@pytest.mark.parametrize("operation", ["AxW", "WxG", "AxG"])
def test_two_operand_formats(operation: str, rows: int | None) -> None:
    """The row side has E5M2. It holds the gradient, or A in the forward pass."""
    config = load_any_preset("core-fp8")
    assert isinstance(config, CoreConfig)
    chosen = None if rows is None else operation.split("x")[rows]
    plan, values = plan_operation(config, LAYER, operation, rows=chosen)
    formats = {name: plan.tensors[name].format for name in values}
    expected = chosen or {"AxW": "A", "WxG": "G", "AxG": "G"}[operation]
    assert formats == {name: "fp8_e5m2" if name == expected else "fp8_e4m3" for name in values}
    assert run_folder(build_folder(plan, values, base=BASE), "golden")[1] == ""
