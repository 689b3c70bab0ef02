"""What the proof of a core's wires is about: all of them."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash_formal.proofs import core_wiring


@pytest.mark.parametrize("left_out", ["sequencer.store", "m_axi", "multiply.b_read", "tile.out"])
def test_wires_that_nothing_is_said_of_are_no_proof(monkeypatch: pytest.MonkeyPatch, left_out: str) -> None:
    links = tuple(link for link in core_wiring.LINKS if link[1] != left_out)
    assert len(links) < len(core_wiring.LINKS)
    monkeypatch.setattr(core_wiring, "LINKS", links)
    with pytest.raises(AssertionError, match="nothing is said of"):
        core_wiring.Wired(CoreConfig())
