"""Test `tensordash simulate` on one stream and on random streams."""

from pathlib import Path

import numpy as np
import pytest

from .simulate_calls import Capture, call, call_json


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Return a folder with a stream, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    np.save("stream.npy", np.tile([True, False, True, False], (4, 100, 1)))


class TestStream:
    def test_stream_with_half_zeros(self, folder: None, capfd: Capture) -> None:
        document = call_json("--stream stream.npy", capfd)
        assert (document["steps"], document["cycles"], document["speedup"], document["ideal_speedup"]) == (
            100,
            50,
            2,
            2,
        )
        assert document["dense_cycles"] == 100
        assert document["row_steps_per_second"] == pytest.approx(4 * 100 / document["seconds"])
        assert 0 < document["seconds"] < 600
        text = call("--stream stream.npy", capfd)
        assert text.startswith("100 steps in 50 cycles: 2.000x (ideal 2.000x); 0 output stalls; rows waited 0, 0, 0, 0")

    def test_both_sides(self, folder: None, capfd: Capture) -> None:
        np.save("a.npy", np.zeros((4, 100, 4), bool))
        document = call_json("--set tile.sparsity=both --stream stream.npy --stream-a a.npy", capfd)
        assert (document["cycles"], document["effectual"], document["ideal_speedup"]) == (25, 0, None)
        assert "4.000x (ideal -)" in call("--set tile.sparsity=both --stream stream.npy --stream-a a.npy", capfd)

    def test_dropped_steps(self, folder: None, capfd: Capture) -> None:
        sparse = np.zeros((4, 64, 4), bool)
        sparse[:, :8:2] = True
        np.save("sparse.npy", sparse)
        document = call_json("--stream sparse.npy --drop-steps", capfd)
        # Steps 0, 2, 4 and 6 are full, two each in banks 0 and 2. Steps of five lines are dropped, none of them full.
        assert (document["cycles"], document["dropped"], document["dropped_speedup"]) == (18, 4, 16)
        assert "with empty steps dropped: 4 cycles, 16.000x" in call("--stream sparse.npy --drop-steps", capfd)
        assert "dropped" not in call_json("--stream sparse.npy", capfd)


class TestRandom:
    @pytest.mark.parametrize(
        ("arguments", "speedup"),
        [
            ("--random 0.2", 1.20),
            ("--random 0.5", 1.72),
            ("--random 0.9", 3.70),
            ("--random 0.5 --preset recommended", 1.77),
            ("--random 0.5 --set tile.rows=16", 1.60),
            ("--random 0.5 --preset dense", 1.00),
            ("--random 1", 4.00),
        ],
    )
    def test_speedups_match_an_independent_model(
        self, arguments: str, speedup: float, folder: None, capfd: Capture
    ) -> None:
        """The expected figures are from another model, which is older than this project."""
        document = call_json(f"{arguments} --steps 100000", capfd)
        assert document["speedup"] == pytest.approx(speedup, rel=0.01)

    def test_options(self, folder: None, capfd: Capture) -> None:
        arguments = "--random 0.5 --steps 4000 --length 100 --cluster rows --threads 1"
        natural, density = (call_json(f"{arguments} --row-order {order}", capfd) for order in ("natural", "density"))
        assert natural["steps"] == density["steps"] == 4000
        assert natural["effectual"] == density["effectual"]
        assert density["cycles"] < 0.9 * natural["cycles"]
        repeated = call_json(f"{arguments} --row-order natural", capfd)
        for document in (natural, repeated):
            assert document["dense_cycles"] == 4000
            assert document.pop("row_steps_per_second") == pytest.approx(4 * 4000 / document.pop("seconds"))
        assert repeated == natural
        assert call_json(f"{arguments} --seed 1", capfd)["effectual"] != natural["effectual"]
