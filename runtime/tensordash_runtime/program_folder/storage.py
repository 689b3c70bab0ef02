"""Write the files of program folders atomically, and check them when they are read."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS, decode
from tensordash.configuration.document import ConfigError
from tensordash_sim.golden.core.effects import read_memory, written_memory
from tensordash_sim.golden.core.legal import Sequencer
from tensordash_storage.files import atomic_path, atomic_write

from ..errors import ProgramFolderError
from .c_source import render_c
from .folder import ProgramFolder
from .manifest import FORMAT, VERSION, manifest_of, parse_manifest

__all__ = ["load_folder", "read_manifest", "write_folder"]

MANIFEST = "manifest.json"
CONFIGURATION = "config.toml"
INITIAL = "initial.bin"
EXPECTED = "expected.bin"


def write_folder(folder: ProgramFolder, path: Path) -> list[Path]:
    """Write the files of the folder, the manifest last; return their paths.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    binary = {INITIAL: folder.initial, EXPECTED: folder.expected}
    text = {CONFIGURATION: folder.plan.config.to_toml(), "initial.hex": _render_hex(folder), **render_c(folder)}
    for name, data in binary.items():
        with atomic_path(path / name) as place:
            place.write_bytes(data)
    for name, content in text.items():
        atomic_write(path / name, content)
    atomic_write(path / MANIFEST, json.dumps(manifest_of(folder), indent=1) + "\n")
    return [path / name for name in (*binary, *text, MANIFEST)]


def _render_hex(folder: ProgramFolder) -> str:
    """Return the initial contents for `$readmemh`, in words of the bus's width, starting at the base."""
    size = folder.plan.config.axi_bits // 8
    data = folder.initial + bytes(-len(folder.initial) % size)
    reversed_words = np.frombuffer(data, np.uint8).reshape(-1, size)[:, ::-1]
    return reversed_words.tobytes().hex("\n", size) + "\n"


def load_folder(folder: Path, config: CoreConfig | None = None) -> ProgramFolder:
    """Read a program folder and check it.

    Parameters
    ----------
    folder : Path
        Folder that `write_folder` wrote.
    config : CoreConfig, optional
        The core that will run it.

    Raises
    ------
    ProgramFolderError
        If a file is missing, truncated or changed; if the folder has another version or core; if regions of memory
        overlap, are misaligned or outside the map; or if a program is illegal or uses memory outside the map's tensors.
    """
    document = read_manifest(folder)
    own = _own_config(folder, document)
    if config is not None and config.digest != own.digest:
        raise ProgramFolderError(
            f"{folder} must be compiled for the core's configuration {config.digest}, not for {own.digest}"
        )
    try:
        plan, memory_map, programs = parse_manifest(document, own)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, ProgramFolderError):
            raise
        raise ProgramFolderError(f"{folder / MANIFEST} cannot be used: {error!r}") from None
    memory_map.check(own)
    contents = {}
    for name, file, size in (("initial", INITIAL, memory_map.initial_bytes), ("expected", EXPECTED, memory_map.size)):
        data = _read(folder / file)
        digest = hashlib.sha256(data).hexdigest()
        if len(data) != size:
            raise ProgramFolderError(f"{folder / file} must have {size} bytes, not {len(data)}: it is cut or damaged")
        if digest != document["memory"].get(f"{name}_sha256"):
            raise ProgramFolderError(f"{folder / file} must have the SHA-256 of the manifest: it is damaged")
        contents[name] = data
    read = ProgramFolder(plan=plan, memory_map=memory_map, programs=programs, **contents)
    for k in range(len(memory_map.programs)):
        _check_program(read, k)
    return read


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ProgramFolderError(f"cannot read {path}: {error.strerror}") from None


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a program folder.

    Raises
    ------
    ProgramFolderError
        If it is missing, or is not the manifest of a program folder of this version.
    """
    path = folder / MANIFEST
    content = _read(path)
    try:
        document = json.loads(content)
    except ValueError as error:
        raise ProgramFolderError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ProgramFolderError(f"{path} must be the manifest of a program folder, whose format is {FORMAT!r}")
    if document.get("version") != VERSION:
        raise ProgramFolderError(
            f"{path} must have version {VERSION}, not {document.get('version')!r}: compile it anew"
        )
    return document


def _own_config(folder: Path, document: Mapping[str, Any]) -> CoreConfig:
    path = folder / CONFIGURATION
    try:
        config = CoreConfig.from_toml(_read(path).decode("utf-8", "replace"))
    except ConfigError as error:
        raise ProgramFolderError(f"{path}: {error}") from None
    section = document.get("configuration")
    digest = section.get("digest") if isinstance(section, Mapping) else None
    if digest != config.digest:
        raise ProgramFolderError(f"{folder / MANIFEST} must have the digest of {path}, {config.digest}, not {digest!r}")
    return config


def _check_program(folder: ProgramFolder, number: int) -> None:
    """Check that a program is legal, has an end, and moves only tensors of the map."""
    config, places = folder.plan.config, folder.memory_map
    name = places.programs[number].name
    if not places.programs[number].end <= places.base + places.initial_bytes:
        raise ProgramFolderError(
            f"{name} must be in the initial contents, up to {places.base + places.initial_bytes:#x}, "
            f"not end at {places.programs[number].end:#x}"
        )
    program, sequencer = folder.descriptors(number), Sequencer(config)
    for index, bits in enumerate(program):
        error = sequencer.refusal(bits)
        operation, _ = decode(bits)
        if error or operation is None:
            raise ProgramFolderError(f"{name} is damaged: the core refuses descriptor {index} (error {error})")
        if (operation is OPERATIONS["end"]) != (index == len(program) - 1):
            raise ProgramFolderError(f"{name} is damaged: its last descriptor must be its only end")
        stored = written_memory(bits, config)
        writable = [*places.tensors.values(), *places.records]
        for runs, regions in ((read_memory(bits, config), [*places.tensors.values()]), (stored, writable)):
            for address, count in runs:
                if not any(each.address <= address and address + count <= each.end for each in regions):
                    raise ProgramFolderError(
                        f"{name} is damaged: descriptor {index} ({operation.name}) must move a tensor of the memory "
                        f"map, not {address:#x} to {address + count:#x}"
                    )
    if not program:
        raise ProgramFolderError(f"{name} must have descriptors")
