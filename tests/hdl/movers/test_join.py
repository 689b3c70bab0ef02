"""Test the emitted Verilog of the joins of several cores."""

import pytest

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.movers.join import Join
from tensordash.movers.read_join import ReadJoin
from tensordash.movers.write_join import WriteJoin
from tensordash_sim.verify.unit_run import run_unit

CONFIG = CoreConfig.from_toml("[core]\naxi_bits = 32\naxi_prot = 5")


def run(part: str, cores: int, outstanding: int = 64, **how) -> list[str]:
    """Run the bench on a join."""
    bus = {"cores": cores, "data_bits": CONFIG.axi_bits, "address_bits": CONFIG.address_bits}
    block: Block
    if part == "join":
        block = Join(CONFIG, cores)
    else:
        block = ReadJoin(**bus, outstanding=outstanding) if part == "reads" else WriteJoin(**bus)
    options = {"part": part, "cores": cores, "outstanding": outstanding}
    return run_unit(block, "join", CONFIG, options=options, **how)


@pytest.mark.parametrize(("cores", "outstanding"), [(2, 2), (3, 3), (4, 5)])
def test_each_core_reads_its_data(cores, outstanding):
    assert run("reads", cores, outstanding, seed=cores) == []


@pytest.mark.parametrize("cores", [2, 3, 4])
def test_each_core_writes_its_data(cores):
    assert run("writes", cores, seed=cores) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("cores", [2, 3])
def test_a_join_reads_and_writes(cores):
    assert run("join", cores, effort=0.4) == []


BROKEN_READS = {
    "lengths are not compared": ("(cores_2_arlen == cores_0_arlen)", "1'b1"),
    "one bit of lengths is not compared": (
        "(cores_1_arlen == cores_0_arlen)",
        "(cores_1_arlen[6:0] == cores_0_arlen[6:0])",
    ),
    "the top bit of addresses is not compared": (
        "(cores_2_araddr == cores_0_araddr)",
        "(cores_2_araddr[38:0] == cores_0_araddr[38:0])",
    ),
    "the lowest bit of addresses is not compared": (
        "(cores_2_araddr == cores_1_araddr)",
        "(cores_2_araddr[39:3] == cores_1_araddr[39:3])",
    ),
    "a descriptor is shared": ("equal_0_2 = waiting[0] &", "equal_0_2 = cores_0_arvalid &"),
    "the first page is not shared": (
        "{1'b0, cores_2_araddr[39:12]} >= shared_base",
        "{1'b0, cores_2_araddr[39:12]} > shared_base",
    ),
    "the last page is not shared": ("cores_2_araddr[39:12] <= shared_limit", "cores_2_araddr[39:12] < shared_limit"),
    "a base above all addresses shares some": (
        "{1'b0, cores_1_araddr[39:12]} >= shared_base) & (cores_1_araddr[39:12] <= shared_limit)",
        "cores_1_araddr[39:12] >= shared_base[27:0]) & (|shared_base[28:0])",
    ),
    "patience is one cycle longer": ("waited >= patience", "waited > patience"),
    "patience is one cycle shorter": ("waited >= patience", "waited + |patience >= patience"),
    "patience does not start over": ("(taken & |(chosen & waiting))", "1'b0"),
    "patience starts over after every burst": ("(taken & |(chosen & waiting))", "taken"),
    "a burst of all cores ends patience": ("(chosen & waiting & ~complete)", "(chosen & waiting)"),
    "the end of patience is not reported": ("expired = taken &", "expired = 1'b0 &"),
    "two cores are enough": ("&group_0}", "equal_0_2}"),
    "the queue overflows": ("{3{~queue__full}}", "3'd7"),
    "the last place of the queue is empty": ("full = taken[2]", "full = taken[1]"),
    "the last place of the queue loses a core": ("{1'b0, bit_2[2:1]}", "{2'd0, bit_2[1]}"),
    "a set replaces one that leaves": ("remains = leaves ?", "remains = leaves & ~adds ?"),
    "a full queue stops descriptors": ("~{cores_2_arid, cores_1_arid, cores_0_arid} |", ""),
    "descriptors are queued": (".adds(taken &", ".adds(taken | taken &"),
    "a waiting address is replaced": ("free = ~axi_arvalid | axi_arready", "free = 1'b1"),
    "an address is taken only while memory is ready": ("free = ~axi_arvalid | axi_arready", "free = axi_arready"),
    "arvalid falls": ("if (free) axi_arvalid <=", "axi_arvalid <="),
    "a waiting address changes": (
        "if (free) begin\n          axi_arid <= cores_2",
        "begin\n          axi_arid <= cores_2",
    ),
    "the last core starves": ("later_1_2 <= chosen[1]", "later_1_2 <= 1'b0"),
    "the last core has the ID of another": ("cores_2_arid ? 3'd1 : 3'd4", "cores_2_arid ? 3'd1 : 3'd2"),
    "a shared burst is read for each core": (
        "cores_2_arready = taken & group[2]",
        "cores_2_arready = taken & chosen[2]",
    ),
    "beats are lost in a stall of the last core": ("cores_1_rready & cores_2_rready", "cores_1_rready"),
    "a beat is doubled in a stall": ("cores_2_rvalid = axi_rvalid & axi_rready", "cores_2_rvalid = axi_rvalid"),
    "a burst ends in a stall": (".leaves(axi_rvalid & axi_rready &", ".leaves(axi_rvalid &"),
    "a burst ends after a beat": ("axi_rready & axi_rlast &", "axi_rready &"),
    "a descriptor ends a burst": ("axi_rlast & axi_rid[0]", "axi_rlast"),
    "the last core gets descriptors of the first": ("3'd1 << axi_rid[2:1]", "3'd1 << axi_rid[1]"),
    "the ID is lost": ("cores_2_rid = axi_rid[0]", "cores_2_rid = 1'b1"),
    "errors are lost": ("cores_2_rresp = axi_rresp", "cores_2_rresp = 2'd0"),
    "one kind of error is another": ("cores_1_rresp = axi_rresp", "cores_1_rresp = {axi_rresp[1], 1'b0}"),
}
BROKEN_WRITES = {
    "the queue overflows": ("& ~queue__full &", "&"),
    "the last place of the queue loses a core": ("{1'b0, bit_2[7:1]}", "{2'd0, bit_2[6:1]}"),
    "a waiting address is replaced": ("(~axi_awvalid | axi_awready) &", ""),
    "awvalid stays": ("if (axi_awready) axi_awvalid <= 1'b0;", ""),
    "the last core starves": ("later_1_2 <= chosen[1]", "later_1_2 <= 1'b0"),
    "the last core has the ID of another": ("3'd4 & {3{chosen[2]}}", "3'd2 & {3{chosen[2]}}"),
    "the top bit of an address is lost": ("{40{chosen[2]}}", "{1'b0, {39{chosen[2]}}}"),
    "the top bit of a length is lost": ("{8{chosen[2]}}", "{1'b0, {7{chosen[2]}}}"),
    "a burst ends after a beat": ("axi_wready & axi_wlast", "axi_wready"),
    "a burst ends in a stall": ("axi_wvalid & axi_wready & axi_wlast", "axi_wvalid & axi_wlast"),
    "a burst ends without a beat": ("axi_wvalid & axi_wready & axi_wlast", "axi_wready & axi_wlast"),
    "beats of another core are taken": ("cores_2_wready = axi_wready & queue__first[2]", "cores_2_wready = axi_wready"),
    "strobes are lost": ("(cores_2_wstrb & {4{queue__first[2]}})", "{4{queue__first[2]}}"),
    "answers are lost in a stall of the last core": ("cores_1_bready & cores_2_bready", "cores_1_bready"),
    "an answer is doubled in a stall": ("cores_2_bvalid = axi_bvalid & axi_bready", "cores_2_bvalid = axi_bvalid"),
    "the first core gets answers of the last": ("axi_bid[2:1] == 2'd0", "~axi_bid[1]"),
    "errors are lost": ("cores_2_bresp = axi_bresp", "cores_2_bresp = 2'd0"),
}
BROKEN_JOINS = {
    "protection is lost": ("m_axi_awprot = 3'd5", "m_axi_awprot = 3'd0"),
    "two cores have one ready": (".cores_2_rready(s_axi_2_rready)", ".cores_2_rready(s_axi_1_rready)"),
    "patience is constant": (".patience(patience)", ".patience(16'd1)"),
    "the upper bits of patience are lost": (".patience(patience)", ".patience(patience & 16'h1f)"),
    "the end of patience is lost": (".expired(expired)", ".expired()"),
    "nothing is shared": (".shared(shared)", ".shared(57'd1)"),
    "write IDs are exchanged": (".axi_bid(m_axi_bid)", ".axi_bid(m_axi_bid ^ 3'd2)"),
}
BROKEN = [
    pytest.param(part, change, id=f"{part}-{name}")
    for part, variants in (("reads", BROKEN_READS), ("writes", BROKEN_WRITES), ("join", BROKEN_JOINS))
    for name, change in variants.items()
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("part", "change"), BROKEN)
def test_a_broken_join_is_found(part, change):
    effort = {"reads": 2, "writes": 1, "join": 0.4}[part]
    assert run(part, 3, 3 if part == "reads" else 64, replaced=[change], effort=effort)
