"""Memory maps and address spaces of an IP-XACT component."""

from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement

from ...configuration.core_config import CoreConfig
from ...configuration.register_map import MapField, MapRegister, register_map
from ...configuration.registers import ADDRESS_BITS, WORD_BITS

__all__ = ["ACCESS", "MEMORY", "REGISTERS", "add_address_space", "add_memory_map", "add_texts"]

MEMORY = "memory"
"""Name of the address space at a core's memory port."""
REGISTERS = "registers"
"""Name of the memory map at a core's register port."""

ACCESS = {
    "constant": "read-only",
    "ro": "read-only",
    "rw": "read-write",
    "w1c": "read-write",
    "wo": "write-only",
}
"""Maps the access of a field or register to its name in IP-XACT and CMSIS-SVD."""


def add_texts(parent: Element, items: Iterable[tuple[str, object]]) -> None:
    """Append an element for each pair of a tag, without its prefix, and a text."""
    for tag, value in items:
        SubElement(parent, f"ipxact:{tag}").text = str(value)


def add_address_space(component: Element, config: CoreConfig) -> None:
    """Append the address space of a core's bursts."""
    space = SubElement(SubElement(component, "ipxact:addressSpaces"), "ipxact:addressSpace")
    add_texts(space, [("name", MEMORY), ("description", "Physical addresses of descriptors and tensors.")])
    add_texts(space, [("range", 1 << config.address_bits), ("width", config.axi_bits), ("addressUnitBits", 8)])


def add_memory_map(component: Element, config: CoreConfig) -> None:
    """Append the registers of a core."""
    memory_map = SubElement(SubElement(component, "ipxact:memoryMaps"), "ipxact:memoryMap")
    add_texts(memory_map, [("name", REGISTERS)])
    block = SubElement(memory_map, "ipxact:addressBlock")
    add_texts(block, [("name", REGISTERS), ("baseAddress", 0), ("range", 1 << ADDRESS_BITS), ("width", WORD_BITS)])
    add_texts(block, [("usage", "register")])
    for register in register_map(config):
        _register(block, register)
    add_texts(memory_map, [("addressUnitBits", 8)])


def _register(block: Element, register: MapRegister) -> None:
    element = SubElement(block, "ipxact:register")
    add_texts(element, [("name", register.name), ("description", register.doc)])
    add_texts(element, [("addressOffset", f"'h{register.offset:x}"), ("size", WORD_BITS)])
    is_volatile = any(each.is_volatile for each in register.fields)
    add_texts(element, [("volatile", str(is_volatile).lower()), ("access", ACCESS[register.access])])
    for each in register.fields:
        _field(element, each)


def _field(register: Element, each: MapField) -> None:
    element = SubElement(register, "ipxact:field")
    add_texts(element, [("name", each.name), ("description", each.doc), ("bitOffset", each.low)])
    reset = SubElement(SubElement(element, "ipxact:resets"), "ipxact:reset")
    add_texts(reset, [("value", f"'h{each.reset:x}")])
    add_texts(element, [("bitWidth", each.width), ("volatile", str(each.is_volatile).lower())])
    add_texts(element, [("access", ACCESS[each.access])])
    if each.codes:
        values = SubElement(element, "ipxact:enumeratedValues")
        for label, code in each.codes.items():
            add_texts(SubElement(values, "ipxact:enumeratedValue"), [("name", label), ("value", code)])
    if each.access == "w1c":
        add_texts(element, [("modifiedWriteValue", "oneToClear")])
