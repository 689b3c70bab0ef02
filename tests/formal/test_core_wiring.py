"""Test that the proof of a core's wires covers all ports."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash_formal.proofs import core_wiring


@pytest.mark.parametrize("left_out", ["sequencer.store", "m_axi", "multiply.b_read", "tile.out"])
def test_an_unchecked_port_is_an_error(monkeypatch: pytest.MonkeyPatch, left_out: str) -> None:
    links = tuple(link for link in core_wiring.LINKS if link[1] != left_out)
    assert len(links) < len(core_wiring.LINKS)
    monkeypatch.setattr(core_wiring, "LINKS", links)
    with pytest.raises(AssertionError, match="is unchecked"):
        core_wiring.WiringHarness(CoreConfig())
