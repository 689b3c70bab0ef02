"""Measurement of a core's energy: a training step on the mapped netlists, gate by gate."""

from collections.abc import Mapping

from tensordash import TensorDashError
from tensordash.configuration.core_config import CoreConfig

from .core_energy import CoreMemories, StepEnergy, StepOperation
from .core_power import GateRun, core_power, run_gates
from .gates import read_netlist
from .hierarchy import MEMORY, Hierarchy, named
from .mapping import Mapped
from .module_text import interface
from .power import find_opensta
from .power_report import NO_OPENSTA
from .run import Run
from .yosys import SynthesisError

__all__ = ["NoEnergyError", "memory_ports", "memory_shape", "memory_size", "training_energies"]

ONE_PORT = "_1_port"


class NoEnergyError(TensorDashError, RuntimeError):
    """The energy of a training step cannot be measured; the message is one line."""


def memory_shape(module: str) -> str:
    """Return the key that identifies a memory's module.

    >>> memory_shape("tensordash_memory__512x64")
    '512x64'
    """
    return module.rpartition("__")[2]


def memory_size(shape: str) -> tuple[int, int]:
    """Return the number of words, and the bits of each.

    >>> memory_size("256x512_in_2_parts_1_port")
    (256, 512)
    """
    words, bits = map(int, shape.partition("_")[0].split("x"))
    return words, bits


def memory_ports(shape: str) -> int:
    """Return the number of ports: 2 (one to write, one to read), or 1 for both.

    >>> memory_ports("512x64"), memory_ports("128x256_1_port")
    (2, 1)
    """
    return 1 if shape.endswith(ONE_PORT) else 2


def training_energies(
    run: Run,
    config: CoreConfig,
    hierarchies: tuple[Hierarchy, Hierarchy],
    mapped: Mapping[str, Mapped],
    memories: tuple[CoreMemories, CoreMemories],
) -> tuple[StepEnergy, StepEnergy]:
    """Return the energy of a training step on a core and on the core around the dense tile.

    Both mapped netlists execute the step's operations, each with the best tiling for that core. Memory must then equal
    the golden core's.

    Parameters
    ----------
    run : Run
        The run that mapped the modules.
    config : CoreConfig
        The core that skips zeros.
    hierarchies : (Hierarchy, Hierarchy)
        Its Verilog, and the dense core's.
    mapped : dict of str to Mapped
        Their modules, by digest.
    memories : (CoreMemories, CoreMemories)
        Their memories.

    Raises
    ------
    NoEnergyError
        If OpenSTA is not installed, or this core cannot execute the step.
    SynthesisError
        If a netlist's bits differ from the golden core's, or OpenSTA fails.
    """
    if find_opensta() is None:
        raise NoEnergyError(NO_OPENSTA)
    if config.tile.a_format != config.tile.b_format:
        raise NoEnergyError("the recorded training step has one format, but the tile's sides have two")
    pending = [
        run.submit(_energy, run, each, hierarchy, mapped, kinds)
        for each, hierarchy, kinds in zip((config, config.baseline), hierarchies, memories, strict=True)
    ]
    run.wait()
    ours, theirs = (future.result() for future in pending)
    return ours, theirs


def _energy(
    run: Run, config: CoreConfig, hierarchy: Hierarchy, mapped: Mapping[str, Mapped], memories: CoreMemories
) -> StepEnergy:
    from tensordash_sim.golden.core.golden_core import GoldenCore
    from tensordash_synth.recorded_step import recorded_operations, step_program

    folder = run.room()
    texts = []
    for name, kind in sorted({(place.module, place.role) for place in hierarchy.placements}):
        if kind == MEMORY:
            texts.append(interface(hierarchy.modules[name].text))
        else:
            texts.append(named(mapped[hierarchy.digest(name)].netlist, name))
    gates = read_netlist("\n".join(texts), hierarchy.top, run.library, folder)
    label = "dense core" if config.tile.sparsity == "none" else "core"
    runs, operations = [], []
    for work in recorded_operations(config):
        program = step_program(config, work)
        memory = bytearray(program.image.memory.bytes)
        done = run_gates(gates, config, program.descriptors, memory)
        GoldenCore(config, program.image.memory).run(program.descriptors)
        if memory != program.image.memory.bytes:
            raise SynthesisError(f"the {label}'s netlist differs from the golden core on {work.name}")
        run.progress(f"{label}, {work.name}: {done.cycles:,} cycles")
        runs.append(done)
        operations.append(
            StepOperation(
                name=work.name,
                cycles=done.cycles,
                accesses=_by_unit(done, hierarchy),
                memory_bytes=done.beats * config.axi_bits // 8,
            )
        )
    watts = core_power(gates, runs, hierarchy.top, run.clock_ns, folder)
    return StepEnergy(operations=tuple(operations), memories=memories, watts=watts, clock_ns=run.clock_ns)


def _by_unit(done: GateRun, hierarchy: Hierarchy) -> dict[str, tuple[int, int]]:
    sums: dict[str, tuple[int, int]] = {}
    for place in hierarchy.placements:
        if place.role == MEMORY:
            reads, writes = done.accesses[".".join(place.path)]
            name = f"{place.path[0]} {memory_shape(place.module)}"
            before = sums.get(name, (0, 0))
            sums[name] = before[0] + reads, before[1] + writes
    return sums
