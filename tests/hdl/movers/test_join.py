"""Test the emitted Verilog of the joins of several cores."""

import pytest

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.movers.join import Join
from tensordash.movers.read_join import ReadJoin
from tensordash.movers.write_join import WriteJoin
from tensordash_sim.verify.unit_run import run_unit

CONFIG = CoreConfig.from_toml("[core]\naxi_bits = 32\naxi_prot = 5\naxi_cache = 3")


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
