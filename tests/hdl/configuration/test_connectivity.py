"""Test errors of connectivities, and compare levels with the golden model."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensordash import Connectivity, TileConfig, load_preset
from tensordash.configuration.connectivity import PAPER_OPTIONS
from tensordash_sim.golden.scheduler import levels as golden_levels

SIX_LEVELS = ((0, 5, 10), (1, 6, 11), (2, 7, 12), (3, 8, 13), (4, 9, 14), (15,))


class TestConnectivity:
    def test_error_messages(self):
        with pytest.raises(ValueError, match=r"^connectivity must begin with \[0, 0\], not \[1, 0\]"):
            Connectivity([(1, 0)], lanes=4, depth=4)
        with pytest.raises(TypeError, match=r"^connectivity must be a list of \[step, lane offset\], not \(\)"):
            Connectivity((), lanes=4, depth=4)

    def test_paper(self):
        paper = Connectivity(PAPER_OPTIONS, lanes=4, depth=4)
        assert paper.levels == ((0,), (1,), (2,), (3,))
        assert paper.positions(0) == ((0, 0), (1, 0), (2, 0), (3, 0), (1, 1), (1, 3), (2, 2), (3, 3))
        assert paper.positions(3)[4:] == ((1, 0), (1, 2), (2, 1), (3, 2))

    def test_paper_16_lanes(self):
        config = load_preset("paper-16lane")
        assert Connectivity(config.options, lanes=16, depth=3).levels == SIX_LEVELS

    def test_dense(self):
        assert Connectivity([(0, 0)], lanes=5, depth=1).levels == (tuple(range(5)),)

    def test_lists_become_tuples(self):
        as_lists, as_tuples = ([[0, 0], [1, -1]], ((0, 0), (1, -1)))
        assert Connectivity(as_lists, lanes=4, depth=2) == Connectivity(as_tuples, lanes=4, depth=2)


@st.composite
def connectivities(draw):
    """Draw lanes, depth and options that do not coincide, in any order."""
    lanes, depth = draw(st.integers(2, 32)), draw(st.integers(2, 6))
    positions = st.tuples(st.integers(1, depth - 1), st.integers(0, lanes - 1))
    chosen = draw(st.lists(positions, unique=True, max_size=10))
    wrapped = draw(st.lists(st.booleans(), min_size=len(chosen), max_size=len(chosen)))
    options = [
        (step, offset - lanes if wrap and offset else offset)
        for (step, offset), wrap in zip(chosen, wrapped, strict=True)
    ]
    return Connectivity([(0, 0), *options], lanes=lanes, depth=depth)


class TestLevels:
    @given(connectivities())
    @settings(derandomize=True, deadline=None, max_examples=300)
    def test_properties(self, connectivity):
        levels = connectivity.levels
        assert sorted(lane for level in levels for lane in level) == list(range(connectivity.lanes))
        for level in levels:
            reached = [position for lane in level for position in connectivity.positions(lane)]
            assert len(set(reached)) == len(reached)
        assert levels == golden_levels(connectivity.options, connectivity.lanes)

    @given(connectivities())
    @settings(derandomize=True, deadline=None, max_examples=100)
    def test_round_trip(self, connectivity):
        config = TileConfig(
            lanes=connectivity.lanes, depth=connectivity.depth, connectivity=connectivity.options, rows=1, columns=1
        )
        assert TileConfig.from_toml(config.to_toml()) == config
        assert config.options == connectivity.options
