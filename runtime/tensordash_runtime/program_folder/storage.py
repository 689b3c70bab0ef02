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
from tensordash_storage.files import write_files

from ..errors import ProgramFolderError
from .c_source import render_c
from .folder import ProgramFolder
from .manifest import FORMAT, VERSION, manifest_of, parse_manifest

__all__ = ["MANIFEST", "load_folder", "read_files", "write_folder"]

MANIFEST = "manifest.json"
CONFIGURATION = "config.toml"
INITIAL = "initial.bin"
EXPECTED = "expected.bin"
FILES = (CONFIGURATION, INITIAL, "initial.hex", EXPECTED, "program.h", "program.c")
HOST_CALLS = "host.c"
"""File of folders with host calls."""


def write_folder(folder: ProgramFolder, path: Path) -> list[Path]:
    """Write the files of the folder, all or none, in place of those of an earlier folder; return their paths.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    texts = {CONFIGURATION: folder.plan.config.to_toml(), "initial.hex": _render_hex(folder), **render_c(folder)}
    files = {INITIAL: folder.initial, EXPECTED: folder.expected} | {name: text.encode() for name, text in texts.items()}
    manifest = manifest_of(folder) | {"files": {name: _digest(data) for name, data in files.items()}}
    # The manifest is first: `load_folder` then refuses a part of the files, and `compile` replaces them.
    return write_files(path, {MANIFEST: json.dumps(manifest, indent=1) + "\n", **files}, optional=[HOST_CALLS])


def _digest(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def _render_hex(folder: ProgramFolder) -> str:
    """Return the initial contents for `$readmemh`, in words of the bus's width, starting at the base."""
    size = folder.plan.config.axi_bits // 8
    data = b"".join((folder.initial, bytes(-len(folder.initial) % size)))
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
    document = _read_manifest(folder)
    files = _read_files(folder, document)
    own = _own_config(folder, document, files[CONFIGURATION])
    if config is not None and config.digest != own.digest:
        raise ProgramFolderError(
            f"{folder} must be compiled for the core's configuration {config.digest}, not for {own.digest}: "
            f"choose the core of {folder / CONFIGURATION}, or compile the folder for this core"
        )
    try:
        plan, memory_map, programs = parse_manifest(document, own)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, ProgramFolderError):
            raise
        what = f"it must have the key {error}" if isinstance(error, KeyError) else repr(error)
        raise ProgramFolderError(f"{folder / MANIFEST} cannot be used: {what}") from None
    memory_map.check(own)
    initial, expected = files[INITIAL], files[EXPECTED]
    for name, data, size in (("initial_bytes", initial, memory_map.initial_bytes), ("size", expected, memory_map.size)):
        if len(data) != size:
            raise ProgramFolderError(f"memory.{name} in {folder / MANIFEST} must be {len(data)}, not {size}")
    read = ProgramFolder(plan=plan, memory_map=memory_map, programs=programs, initial=initial, expected=expected)
    for k in range(len(memory_map.programs)):
        _check_program(read, k)
    return read


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ProgramFolderError(f"cannot read {path}: {error.strerror}") from None


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files of a program folder except the manifest, by name.

    Raises
    ------
    ProgramFolderError
        If a file is missing, or is not the one that the manifest describes.
    """
    return _read_files(folder, _read_manifest(folder))


def _read_files(folder: Path, document: Mapping[str, Any]) -> dict[str, bytes]:
    names = {*FILES, HOST_CALLS} if document.get("host_calls") else {*FILES}
    digests = document.get("files")
    if not isinstance(digests, Mapping) or digests.keys() != names:
        raise ProgramFolderError(f"{folder / MANIFEST} must have the SHA-256 of {', '.join(sorted(names))} in `files`")
    files = {name: _read(folder / name) for name in sorted(names)}
    for name, data in files.items():
        if _digest(data) != digests[name]:
            raise ProgramFolderError(
                f"{folder / name} must have the SHA-256 in {MANIFEST}: it was cut or changed, so compile anew"
            )
    return files


def _read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest, and check its format and version."""
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


def _own_config(folder: Path, document: Mapping[str, Any], content: bytes) -> CoreConfig:
    path = folder / CONFIGURATION
    try:
        config = CoreConfig.from_toml(content.decode("utf-8", "replace"))
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
