"""CMSIS-SVD of a core: its registers, for debuggers and driver generators."""

from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from ...configuration.core_config import CoreConfig
from ...configuration.register_map import MapField, MapRegister, register_map
from ...configuration.registers import ADDRESS_BITS, WORD_BITS
from ...version import NUMERIC_VERSION
from ..head import check_prefix
from .ipxact_memory import ACCESS

__all__ = ["svd"]


def svd(config: CoreConfig, prefix: str = "tensordash") -> str:
    """Return the description of a core as a device with one peripheral at address 0.

    Parameters
    ----------
    config : CoreConfig
        The core.
    prefix : str
        Prefix of names: the device is ``PREFIX_core``.

    Source: Arm, "System View Description", schema 1.3.
    """
    device = Element(
        "device",
        {
            "schemaVersion": "1.3",
            "xmlns:xs": "http://www.w3.org/2001/XMLSchema-instance",
            "xs:noNamespaceSchemaLocation": "CMSIS-SVD.xsd",
        },
    )
    name = f"{check_prefix(prefix)}_core"
    _add(device, "vendor", "TensorDash")
    _add(device, "name", name)
    _add(device, "version", NUMERIC_VERSION)
    _add(device, "description", f"A TensorDash core, configuration {config.digest}. Set baseAddress to its place.")
    _add(device, "addressUnitBits", "8")
    _add(device, "width", str(WORD_BITS))
    peripheral = SubElement(SubElement(device, "peripherals"), "peripheral")
    _add(peripheral, "name", name)
    _add(peripheral, "baseAddress", "0x00000000")
    block = SubElement(peripheral, "addressBlock")
    for tag, value in (("offset", "0x0"), ("size", f"0x{1 << ADDRESS_BITS:x}"), ("usage", "registers")):
        _add(block, tag, value)
    registers = SubElement(peripheral, "registers")
    for register in register_map(config):
        _register(registers, register)
    ElementTree.indent(device)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(device, encoding="unicode") + "\n"


def _add(parent: Element, tag: str, text: str) -> None:
    SubElement(parent, tag).text = text


def _register(parent: Element, register: MapRegister) -> None:
    element = SubElement(parent, "register")
    _add(element, "name", register.name)
    _add(element, "description", register.doc)
    _add(element, "addressOffset", f"0x{register.offset:02x}")
    _add(element, "size", str(WORD_BITS))
    _add(element, "access", ACCESS[register.access])
    _add(element, "resetValue", f"0x{register.reset:08x}")
    _add(element, "resetMask", "0xffffffff")
    fields = SubElement(element, "fields")
    for each in register.fields:
        _field(fields, each)


def _field(parent: Element, each: MapField) -> None:
    element = SubElement(parent, "field")
    _add(element, "name", each.name)
    _add(element, "description", each.doc)
    _add(element, "bitOffset", str(each.low))
    _add(element, "bitWidth", str(each.width))
    _add(element, "access", ACCESS[each.access])
    if each.access == "w1c":
        _add(element, "modifiedWriteValues", "oneToClear")
    if each.codes:
        values = SubElement(element, "enumeratedValues")
        for label, code in each.codes.items():
            value = SubElement(values, "enumeratedValue")
            _add(value, "name", label)
            _add(value, "value", str(code))
