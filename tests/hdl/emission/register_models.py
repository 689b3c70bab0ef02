"""Models of a core's registers, from third-party readers of SystemRDL, CMSIS-SVD and IP-XACT."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cmsis_svd import SVDParser
from lxml import etree
from systemrdl import RDLCompiler
from systemrdl.messages import MessagePrinter
from systemrdl.node import AddrmapNode, FieldNode, RegNode

__all__ = [
    "IPXACT",
    "FieldModel",
    "RegisterModel",
    "compile_rdl",
    "ipxact_model",
    "ipxact_volatile",
    "rdl_model",
    "rdl_volatile",
    "svd_model",
]

IPXACT = {"ipxact": "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"}


@dataclass(frozen=True)
class FieldModel:
    """A field: lowest bit, width, access ("r", "rw" or "w"), whether ones clear it, and value after reset."""

    low: int
    width: int
    access: str
    clears: bool
    reset: int


@dataclass(frozen=True)
class RegisterModel:
    """A register: its offset, and its fields by name."""

    offset: int
    fields: dict[str, FieldModel]

    @property
    def reset(self) -> int:
        return sum(each.reset << each.low for each in self.fields.values() if each.access != "w")


class Silent(MessagePrinter):
    """Prints nothing: an error raises `RDLCompileError` in any case."""

    def emit_message(self, lines: list[str]) -> None:
        pass


def compile_rdl(path: Path) -> AddrmapNode:
    """Return the only address map of a file."""
    compiler = RDLCompiler(message_printer=Silent())
    compiler.compile_file(str(path))
    return compiler.elaborate().top


def rdl_model(path: Path) -> dict[str, RegisterModel]:
    """Return the registers by their RDL property `name`."""
    return {
        node.get_property("name"): RegisterModel(
            node.raw_address_offset, {each.get_property("name"): _rdl_field(each) for each in node.fields()}
        )
        for node in compile_rdl(path).children()
        if isinstance(node, RegNode)
    }


def _rdl_field(node: FieldNode) -> FieldModel:
    onwrite = node.get_property("onwrite")
    assert onwrite is None or onwrite.name == "woclr"
    access, reset = node.get_property("sw").name, node.get_property("reset")
    assert isinstance(reset, int)
    return FieldModel(node.low, node.width, access, onwrite is not None, reset)


def rdl_volatile(path: Path) -> set[tuple[str, str]]:
    """Return (register, field) of the fields that software reads and the hardware changes."""
    return {
        (node.get_property("name"), each.get_property("name"))
        for node in compile_rdl(path).children()
        if isinstance(node, RegNode)
        for each in node.fields()
        if each.is_volatile and each.is_sw_readable
    }


ACCESSES = {"read-only": "r", "read-write": "rw", "write-only": "w"}


def svd_model(path: Path) -> dict[str, RegisterModel]:
    """Return the registers of the only peripheral."""
    peripherals: list[Any] = SVDParser.for_xml_file(str(path)).get_device().peripherals
    (peripheral,) = peripherals
    return {register.name: _svd_register(register) for register in peripheral.registers}


def _svd_register(register: Any) -> RegisterModel:
    return RegisterModel(
        register.address_offset,
        {
            each.name: FieldModel(
                each.bit_offset,
                each.bit_width,
                ACCESSES[each.access.value],
                each.modified_write_values is not None and each.modified_write_values.value == "oneToClear",
                register.reset_value >> each.bit_offset & ((1 << each.bit_width) - 1),
            )
            for each in register.fields
        },
    )


def ipxact_model(path: Path) -> dict[str, RegisterModel]:
    """Return the registers of the only memory map."""
    found = {}
    for register in etree.parse(path).iterfind(".//ipxact:register", IPXACT):
        fields = {}
        for each in register.iterfind("ipxact:field", IPXACT):
            fields[_text(each, "name")] = FieldModel(
                _number(_text(each, "bitOffset")),
                _number(_text(each, "bitWidth")),
                ACCESSES[_text(each, "access")],
                each.findtext("ipxact:modifiedWriteValue", None, IPXACT) == "oneToClear",
                _number(_text(each, "resets/ipxact:reset/ipxact:value")),
            )
        found[_text(register, "name")] = RegisterModel(_number(_text(register, "addressOffset")), fields)
    return found


def ipxact_volatile(path: Path) -> set[tuple[str, str]]:
    """Return (register, field) of the fields that IP-XACT marks as volatile."""
    return {
        (_text(register, "name"), _text(each, "name"))
        for register in etree.parse(path).iterfind(".//ipxact:register", IPXACT)
        for each in register.iterfind("ipxact:field", IPXACT)
        if _text(each, "volatile") == "true"
    }


def _text(element: Any, path: str) -> str:
    text = element.findtext(f"ipxact:{path}", None, IPXACT)
    assert text is not None, path
    return text


def _number(text: str) -> int:
    return int(text.removeprefix("'h"), 16) if text.startswith("'h") else int(text)
