"""Compare coverage of small runs with counts by hand."""

from tensordash import TileConfig
from tensordash.configuration.formats import FORMATS, FP32
from tensordash_sim.golden.ports import Offer
from tensordash_sim.golden.tile import Tile
from tensordash_sim.verify.soak.coverage import Coverage, merged, universe

ONE, NOTHING = 0x3C00, Offer()


def test_two_steps_of_a_tile():
    """One row has a value only in the first step, the other row in both, so that the first waits for a step."""
    config = TileConfig(rows=2, columns=1)
    tile, coverage = Tile(config), Coverage(config)
    sparse, dense = [[ONE, 0, 0, 0], [0, 0, 0, 0]], [[ONE] * 4, [ONE] * 4]
    offers = [[Offer(steps, 2, last=True) for steps in side] for side in ([dense], [sparse, dense])]
    inputs = [offers] + [[[NOTHING], [NOTHING, NOTHING]]] * 6
    for index, (a, b) in enumerate(inputs):
        outputs = tile.cycle(a, b, out_ready=index != 5, clear=index == 1)
        coverage.cycle(tile, outputs, waited=outputs.out_valid and index == 5, clear=index == 1, reset=False)
    assert coverage.counts["AS"] == {"1 of 4": 2}
    assert coverage.counts["row wait"] == {"0 of 4": 3, "1 of 4": 1}
    assert coverage.counts["steps taken"] == {"2 of 4": 1, "0 of 4": 6}
    assert coverage.counts["steps present"] == {"2 of 4": 1, "1 of 4": 1, "0 of 4": 5}
    assert coverage.counts["stream ends in the window"] == {"1 of 4": 2, "0 of 4": 5}
    assert [lane[0] for lane in coverage.options] == [3, 2, 2, 2]
    assert sum(map(sum, coverage.options)) == 9
    assert coverage.counts["event"]["clear in a cycle with a schedule"] == 1
    # The counter counts from the cycle after the second stall.
    assert coverage.counts["counter"]["stall_input counts"] == 4
    assert "cycles saturated" not in coverage.counts["counter"]
    assert "flag" not in coverage.counts


def test_reset_in_a_stream_and_a_stream_of_zeros():
    config = TileConfig(rows=1, columns=1, depth=2, connectivity=((0, 0), (1, 0)))
    tile, coverage = Tile(config), Coverage(config)
    dense, zeros = Offer([[ONE] * 4] * 2, 2), Offer([[0] * 4] * 2, 2, last=True)

    def cycle(offer: Offer, *, reset: bool = False) -> None:
        outputs = tile.cycle([offer], [offer], out_ready=True)
        if reset:
            tile.reset()
        coverage.cycle(tile, outputs, waited=False, clear=False, reset=reset)

    cycle(dense)
    cycle(NOTHING)
    cycle(NOTHING, reset=True)
    assert coverage.counts["event"]["reset in a stream"] == 1
    assert coverage.counts["event"]["stream of one schedule"] == 0
    cycle(zeros)
    cycle(NOTHING)
    assert coverage.counts["event"]["stream of one schedule"] == 1
    assert coverage.counts["event"]["stream without an effectual pair"] == 1


def test_values():
    coverage = Coverage(TileConfig(initial=True))
    coverage.operands("a", FORMATS["fp16"], [0, 0x8000, 1, 0x7BFF, 0xFC00, 0x7E00, 0xFE00, 0xBC00])
    kinds = ("+zero", "-zero", "+subnormal", "+largest", "-infinite", "-normal")
    assert coverage.counts["operand"] == {f"fp16 a {kind}": 1 for kind in kinds} | {"fp16 a NaN": 2}
    coverage.operands("c", FP32, [0x80000001])
    assert coverage.counts["operand"]["fp32 c -subnormal"] == 1
    coverage.results([0x7FC00000, 0x3F800000, 0])
    assert coverage.counts["result"] == {"exact NaN": 1, "exact +normal": 1, "exact +zero": 1}
    integers = Coverage(TileConfig(format="int8"))
    integers.operands("b", FORMATS["int8"], [0x80, 0x7F, 0xFF, 1, 0])
    assert set(integers.counts["operand"].values()) == {1}
    assert "int8 b least" in integers.counts["operand"]


def test_scales():
    coverage = Coverage(TileConfig(format="fp8_e4m3", accumulator="hopper", scale="e8m0"))
    coverage.scales("a", [0, 254, 255, 127, 1])
    assert coverage.counts["scale"] == {"e8m0 a least": 1, "e8m0 a largest": 1, "e8m0 a NaN": 1, "e8m0 a between": 2}
    coverage = Coverage(TileConfig(format="fp4_e2m1", scale="e4m3"))
    coverage.scales("b", [0x80, 0x7E, 0x7F, 0x01])
    assert set(coverage.counts["scale"]) == {f"e4m3 b {kind}" for kind in ("-zero", "+largest", "NaN", "+subnormal")}
    assert set(coverage.counts["scale"]) <= set(universe()["scale"])


def test_merged_has_every_point():
    counts = merged([{"AS": {"1 of 4": 2}}, {"AS": {"1 of 4": 3}, "event": {"frozen": 1}}])
    assert counts["AS"]["1 of 4"] == 5
    assert counts["event"]["frozen"] == 1
    assert all(set(points) == set(counts[group]) for group, points in universe().items())
    assert sum(sum(points.values()) for points in counts.values()) == 6
