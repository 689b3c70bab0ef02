"""IP-XACT (IEEE 1685-2014) of a packaged top: buses, ports, registers, parameters and files."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from ...configuration.core_config import CoreConfig
from ...version import NUMERIC_VERSION
from .buses import Bus, Port, find_buses
from .ipxact_memory import MEMORY, REGISTERS, add_address_space, add_memory_map, add_texts

__all__ = ["component_xml"]

NAMESPACE = "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"
BUS_TYPES = {
    "AXI4": ("AXI4", "r0p0_0"),
    "AXI4-Lite": ("AXI4-Lite", "r0p0_0"),
    "AXI4-Stream": ("AXI4Stream", "r0p0_1"),
}
"""Maps a protocol to name and version of Arm's bus definition (vendor amba.com, library AMBA4)."""
FILE_TYPES = {".v": "verilogSource-2001", ".sv": "systemVerilogSource", ".sdc": "SDC", ".h": "cSource"}
"""Maps a suffix to a type of file. The standard has no type for Verilog-2005."""
CLOCKED = (("ACLK", "aclk"), ("ARESETn", "aresetn"))
"""Logical and physical ports of the clock and the reset, which belong to every bus."""


def component_xml(
    top: str,
    description: str,
    ports: Sequence[Port],
    parameters: Mapping[str, int],
    file_sets: Mapping[str, Sequence[str]],
    config: CoreConfig | None = None,
) -> str:
    """Return the description of a top with AXI buses, `aclk` and `aresetn`.

    Parameters
    ----------
    top : str
        The module.
    description : str
        Description of the module, in one line.
    ports : sequence of Port
        All ports of the module.
    parameters : mapping of str to int
        Parameters of the configuration. They are constants: another value needs other Verilog.
    file_sets : mapping of str to sequence of str
        Names of files. The set "rtl" has the Verilog, in the order of compilation.
    config : CoreConfig, optional
        A core's configuration, for its memory map and address space.

    Source: IEEE 1685-2014; Arm, "AMBA IP-XACT bus definitions".
    """
    component = Element(
        "ipxact:component",
        {
            "xmlns:ipxact": NAMESPACE,
            "xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance",
            "xsi:schemaLocation": f"{NAMESPACE} {NAMESPACE}/index.xsd",
        },
    )
    add_texts(component, [("vendor", "tensordash"), ("library", "ip"), ("name", top), ("version", NUMERIC_VERSION)])
    buses = SubElement(component, "ipxact:busInterfaces")
    for bus in find_buses(ports):
        _bus(buses, bus)
    if config:
        add_address_space(component, config)
        add_memory_map(component, config)
    _model(component, top, ports, file_sets)
    _file_sets(component, file_sets)
    add_texts(component, [("description", description)])
    values = SubElement(component, "ipxact:parameters")
    for name, value in parameters.items():
        attributes = {"parameterId": name, "type": "longint", "resolve": "immediate"}
        add_texts(SubElement(values, "ipxact:parameter", attributes), [("name", name), ("value", value)])
    ElementTree.indent(component)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(component, encoding="unicode") + "\n"


def _bus(parent: Element, bus: Bus) -> None:
    name, version = BUS_TYPES[bus.protocol]
    element = SubElement(parent, "ipxact:busInterface")
    add_texts(element, [("name", bus.name)])
    reference = {"vendor": "amba.com", "library": "AMBA4", "version": version}
    SubElement(element, "ipxact:busType", {**reference, "name": name})
    abstraction = SubElement(SubElement(element, "ipxact:abstractionTypes"), "ipxact:abstractionType")
    SubElement(abstraction, "ipxact:abstractionRef", {**reference, "name": f"{name}_rtl"})
    port_maps = SubElement(abstraction, "ipxact:portMaps")
    for logical, physical in (*CLOCKED, *((port.signal.upper(), port.name) for port in bus.ports)):
        port_map = SubElement(port_maps, "ipxact:portMap")
        add_texts(SubElement(port_map, "ipxact:logicalPort"), [("name", logical)])
        add_texts(SubElement(port_map, "ipxact:physicalPort"), [("name", physical)])
    if bus.protocol == "AXI4":
        master = SubElement(element, "ipxact:master")
        SubElement(master, "ipxact:addressSpaceRef", {"addressSpaceRef": MEMORY})
    elif bus.protocol == "AXI4-Lite":
        slave = SubElement(element, "ipxact:slave")
        SubElement(slave, "ipxact:memoryMapRef", {"memoryMapRef": REGISTERS})
    else:
        SubElement(element, "ipxact:master" if bus.is_master else "ipxact:slave")


def _model(component: Element, top: str, ports: Sequence[Port], file_sets: Mapping[str, Sequence[str]]) -> None:
    model = SubElement(component, "ipxact:model")
    view = SubElement(SubElement(model, "ipxact:views"), "ipxact:view")
    add_texts(view, [("name", "rtl"), ("envIdentifier", ":*Synthesis:"), ("envIdentifier", ":*Simulation:")])
    add_texts(view, [("componentInstantiationRef", "rtl")])
    instantiation = SubElement(SubElement(model, "ipxact:instantiations"), "ipxact:componentInstantiation")
    add_texts(instantiation, [("name", "rtl"), ("language", "verilog"), ("moduleName", top)])
    for name in file_sets:
        add_texts(SubElement(instantiation, "ipxact:fileSetRef"), [("localName", name)])
    listed = SubElement(model, "ipxact:ports")
    for port in ports:
        element = SubElement(listed, "ipxact:port")
        add_texts(element, [("name", port.name), ("description", port.doc)])
        wire = SubElement(element, "ipxact:wire")
        add_texts(wire, [("direction", port.direction.removesuffix("put"))])
        if port.bits > 1:
            vector = SubElement(SubElement(wire, "ipxact:vectors"), "ipxact:vector")
            add_texts(vector, [("left", port.bits - 1), ("right", 0)])


def _file_sets(component: Element, file_sets: Mapping[str, Sequence[str]]) -> None:
    parent = SubElement(component, "ipxact:fileSets")
    for name, files in file_sets.items():
        file_set = SubElement(parent, "ipxact:fileSet")
        add_texts(file_set, [("name", name)])
        for file in files:
            element = SubElement(file_set, "ipxact:file")
            add_texts(element, [("name", file)])
            suffix = PurePath(file).suffix
            if suffix in FILE_TYPES:
                add_texts(element, [("fileType", FILE_TYPES[suffix])])
            else:
                SubElement(element, "ipxact:fileType", {"user": suffix.removeprefix(".")}).text = "user"
