"""Test the emitted Verilog of a multicore's registers, and of the switch in front of them."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tensordash.block import Block, placed
from tensordash.configuration.core_config import CoreConfig
from tensordash.core.join_registers import JoinRegisters
from tensordash.core.register_switch import RegisterSwitch
from tensordash_sim.verify.unit_run import run_unit

CONFIG = CoreConfig.from_toml("[core]\naddress_bits = 44")


class SwitchedRegisters(Block):
    """A switch with join registers at all ports."""

    def __init__(self, ports: int) -> None:
        self.switch = RegisterSwitch(ports=ports)
        self.registers = [JoinRegisters(address_bits=CONFIG.address_bits) for _ in range(ports)]
        one = self.registers[0]
        super().__init__(
            {
                "s_axi": In(self.switch.s_axi.signature.flip()),
                "shared": Out(one.shared.shape()).array(ports),
                "patience": Out(len(one.patience)).array(ports),
                "expired": In(1).array(ports),
            }
        )

    def elaborate(self, platform):
        """Connect the registers to the switch."""
        m = Module()
        m.submodules.switch = placed(self.switch, platform)
        wiring.connect(m, wiring.flipped(self.s_axi), self.switch.s_axi)
        for k, (port, registers) in enumerate(zip(self.switch.ports, self.registers, strict=True)):
            m.submodules[f"registers_{k}"] = placed(registers, platform)
            wiring.connect(m, port, registers.axi)
            m.d.comb += [
                self.shared[k].eq(registers.shared),
                self.patience[k].eq(registers.patience),
                registers.expired.eq(self.expired[k]),
            ]
        return m


def run(ports: int, **how) -> list[str]:
    """Run the bench on the registers."""
    return run_unit(SwitchedRegisters(ports), "multicore_registers", CONFIG, options={"ports": ports}, **how)


@pytest.mark.parametrize("ports", [2, 3, 5])
def test_accesses_reach_their_registers(ports):
    assert run(ports, seed=ports) == []


BROKEN = {
    "addresses beyond the last port have no port": ("s_axi_awaddr[13:12] >= 2'd2", "s_axi_awaddr[13:12] == 2'd2"),
    "reads beyond the last port have no port": ("s_axi_araddr[13:12] >= 2'd2", "s_axi_araddr[13:12] == 2'd2"),
    "a second write passes before the answer": ("~|write_to & ~|write_of", "~|write_to"),
    "a second read passes before the answer": ("~|read_to & ~|read_of", "~|read_to"),
    "a write is offered again": ("write_to <= 3'd0;\n      write_of <= write_to;", "write_of <= write_to;"),
    "a write without data passes": ("s_axi_awvalid & s_axi_wvalid & ~|write_to", "s_axi_awvalid & ~|write_to"),
    "an answer comes from the first port": ("(ports_2_rdata & {32{read_of[2]}})", "(ports_0_rdata & {32{read_of[2]}})"),
    "an answer of the last port is lost": ("(ports_2_bvalid & write_of[2])", "1'b0"),
    "the answer is not taken": ("ports_1_rready = s_axi_rready & read_of[1]", "ports_1_rready = 1'b1"),
    "a read is never over": ("s_axi_rvalid & s_axi_rready) read_of <=", "1'b0) read_of <="),
    "writes go to two ports": (
        "ports_1_awvalid = write_to[1];\n  assign ports_1_wvalid = write_to[1];",
        "ports_1_awvalid = |write_to;\n  assign ports_1_wvalid = |write_to;",
    ),
    "the high half of the limit is not written": (
        "shared_limit_high_word <= (shared_limit_high_word & ~mask) |",
        "shared_limit_high_word <= shared_limit_high_word & ",
    ),
    "the top bit of the base is lost": ("shared_base_high_word[11:0]", "{1'b0, shared_base_high_word[10:0]}"),
    "patience has a bit less": ("{16'd0, axi_wdata[15:0] & mask[15:0]}", "{17'd0, axi_wdata[14:0] & mask[14:0]}"),
    "patience lasts after its end": ("if (expired) patience_word <=", "if (1'b0) patience_word <="),
    "strobes are ignored": ("{8{axi_wstrb[3]}}", "8'hff"),
    "the limit reads without its page": ("shared_limit_word | 32'hfff", "shared_limit_word"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_registers_are_found(name):
    old, new = BROKEN[name]
    assert run(3, replaced=[(old, new)])
