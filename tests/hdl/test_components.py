"""Test components' ports, and the sizes that follow from parameters."""

from dataclasses import replace

import pytest

from tensordash import Connectivity, Tile, TileConfig, load_preset
from tensordash.arithmetic.multiplier import Multiplier
from tensordash.configuration.connectivity import PAPER_OPTIONS
from tensordash.configuration.formats import FORMATS, FloatFormat
from tensordash.emission.verilog import members
from tensordash.layouts import FixedPoint
from tensordash.movers.join import Join
from tensordash.schedule.operand_mux import OperandMux
from tensordash.schedule.row_scheduler import RowScheduler
from tensordash.schedule.scheduler import Scheduler
from tensordash.schedule.staging_buffer import StagingBuffer
from tensordash.schedule.staging_ring import StagingRing
from tensordash.short_queue import ShortQueue
from tensordash.streams.axi_stream import AxiStreamTile
from tensordash.streams.block_quantiser import BlockQuantiser
from tensordash.streams.ring_feeder import RingFeeder
from tensordash.streams.step_feeder import StepFeeder
from tensordash.streams.transposer import Transposer
from tensordash.tile.control import count_bits
from tensordash.tile.pe import PE

from .component_parameters import FP16, FUSED, INTEGER, NUMBERS, PAPER, RIGHT

TURNING = Connectivity([(0, 0), (1, 1), (2, 0), (1, 0), (2, 1)], lanes=4, depth=3)


def ports(block) -> dict[str, tuple[str, int]]:
    return {name: ("in" if is_input else "out", len(value)) for name, value, is_input in members(block)}


SUM_PORTS = dict.fromkeys(("sum_hold", "sum_start", "sum_take", "sum_overflow"), 1)
COUNTER_PORTS = {
    **dict.fromkeys(("cycles", "steps", "effectual", "stall_input", "stall_output", "input_limited"), ("out", 32)),
    **dict.fromkeys(("protocol_error", "non_finite", "overflow", "result_non_finite", "idle"), ("out", 1)),
    "row_wait": ("out", 128),
    "clear": ("in", 1),
}


def test_ports_of_the_paper_tile():
    expected = {**COUNTER_PORTS, "out_payload": ("out", 4 * 32 + 1), "out_valid": ("out", 1), "out_ready": ("in", 1)}
    for side in "ab":
        for i in range(4):
            expected |= {
                f"{side}_{i}_steps": ("in", 4 * 4 * 16),
                f"{side}_{i}_available": ("in", 3),
                f"{side}_{i}_last": ("in", 1),
                f"{side}_{i}_taken": ("out", 3),
            }
    assert ports(Tile(TileConfig())) == expected


def test_ports_of_the_paper_wrapper():
    expected = {
        **COUNTER_PORTS,
        "m_axis_tdata": ("out", 128),
        "m_axis_tlast": ("out", 1),
        "m_axis_tvalid": ("out", 1),
        "m_axis_tready": ("in", 1),
    }
    for side in "ab":
        for i in range(4):
            expected |= {
                f"s_axis_{side}{i}_tdata": ("in", 256),
                f"s_axis_{side}{i}_tkeep": ("in", 32),
                f"s_axis_{side}{i}_tlast": ("in", 1),
                f"s_axis_{side}{i}_tvalid": ("in", 1),
                f"s_axis_{side}{i}_tready": ("out", 1),
            }
    assert ports(AxiStreamTile(TileConfig())) == expected


def test_ports_of_the_baseline():
    found = ports(Tile(load_preset("dense")))
    assert found["a_0_steps"] == ("in", 64)
    assert found["b_3_available"] == ("in", 1)
    assert found["b_3_taken"] == ("out", 1)


def test_ports_of_a_non_power_of_two_tile():
    config = TileConfig(rows=6, columns=5, lanes=6, depth=3, out_rows=2, connectivity=((0, 0), (1, 0), (2, 5)))
    found = ports(Tile(config))
    assert found["out_payload"] == ("out", 2 * 5 * 32 + 1)
    assert found["a_4_steps"] == ("in", 3 * 6 * 16)
    assert found["b_5_taken"] == ("out", 2)
    assert "a_5_steps" not in found
    assert "b_6_steps" not in found
    assert found["row_wait"] == ("out", 6 * 32)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (Multiplier(a_format=FP16, b_format=FP16), {"a": 16, "b": 16, "product": 22 + 6 + 3}),
        (Scheduler(PAPER), {"effectual": 16, "eligible": 4, "select": 32, "remaining": 16, "advance": 4}),
        (
            RowScheduler(PAPER),
            {
                "nonzero": 16,
                "motion_refill": 20,
                "motion_eligible_next": 4,
                "motion_scheduled": 1,
                "select": 32,
                "active": 4,
                "advance": 4,
            },
        ),
        (StagingBuffer(width=16, lanes=4, depth=4), {"steps": 256, "refill": 20, "window": 256}),
        (StagingBuffer(width=16, lanes=4, depth=1), {"steps": 64, "refill": 2, "window": 64}),
        (StagingRing(width=16, lanes=4, depth=4), {"steps": 256, "write": 4, "window": 256}),
        (OperandMux(width=16, connectivity=TURNING, ring=True), {"window": 192, "select": 24, "operands": 64}),
        (
            RowScheduler(TURNING, ring=True),
            {
                "nonzero": 12,
                "motion_refill": 6 + 5 + 4,
                "motion_eligible_next": 3,
                "motion_scheduled": 1,
                "motion_oldest": 3,
                "select": 24,
                "active": 4,
                "advance": 3,
            },
        ),
        (
            RingFeeder(width=16, lanes=4, depth=3),
            {
                "s_axis_tdata": 192,
                "s_axis_tkeep": 24,
                "s_axis_tlast": 1,
                "s_axis_tvalid": 1,
                "s_axis_tready": 1,
                "port_steps": 192,
                "port_available": 2,
                "port_last": 1,
                "port_taken": 2,
                "empty": 1,
                "wrong": 1,
            },
        ),
        (ShortQueue(bits=3, places=2), {"added": 3, "adds": 1, "leaves": 1, "first": 3, "present": 1, "full": 1}),
        (OperandMux(width=16, connectivity=PAPER), {"window": 256, "select": 32, "operands": 64}),
        (
            Transposer(width=16, lanes=4),
            {
                "blocks_payload": 65,
                "blocks_valid": 1,
                "blocks_ready": 1,
                "out_payload": 64,
                "out_valid": 1,
                "out_ready": 1,
            },
        ),
        (
            BlockQuantiser(fmt=FORMATS["fp4_e2m1"], lanes=4),  # type: ignore[arg-type]
            {
                "values_payload": 128,
                "values_valid": 1,
                "values_ready": 1,
                "out_payload": 24,
                "out_valid": 1,
                "out_ready": 1,
                "rounding": 2,
                "seed": 32,
                "start": 1,
            },
        ),
        (
            StepFeeder(width=16, lanes=4, depth=4),
            {
                "s_axis_tdata": 256,
                "s_axis_tkeep": 32,
                "s_axis_tlast": 1,
                "s_axis_tvalid": 1,
                "s_axis_tready": 1,
                "port_steps": 256,
                "port_available": 3,
                "port_last": 1,
                "port_taken": 3,
                "empty": 1,
                "wrong": 1,
            },
        ),
        (PE(**NUMBERS, lanes=4, stages=2), {"a": 64, "b": 64, "active": 4, **SUM_PORTS, "sum_value": 97 + 2}),
        (
            PE(numerics=replace(FUSED, initial=True), lanes=4, stages=2),
            {"a": 64, "b": 64, "active": 4, **SUM_PORTS, "sum_c": 32, "sum_value": 32 + 2},
        ),
        (PE(numerics=INTEGER, lanes=4, stages=2), {"a": 32, "b": 32, "active": 4, **SUM_PORTS, "sum_value": 32}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_widths(block, expected):
    assert {name: width for name, (_, width) in ports(block).items()} == expected


@pytest.mark.parametrize(("cores", "id_bits"), [(2, 2), (3, 3), (4, 3), (5, 4), (16, 5)])
def test_a_join_has_a_port_for_each_core_and_ids_for_all(cores, id_bits):
    found = ports(Join(**RIGHT[Join] | {"cores": cores}))
    assert {name for name in found if name.endswith("_arvalid")} == {
        "m_axi_arvalid",
        *(f"s_axi_{k}_arvalid" for k in range(cores)),
    }
    assert (found["m_axi_arid"], found["m_axi_bid"]) == (("out", id_bits), ("in", id_bits))
    assert (found["s_axi_0_arid"], found["patience"], found["shared"]) == (("in", 1), ("in", 16), ("in", 28 + 29))


@pytest.mark.parametrize(("limit", "bits"), [(1, 1), (2, 2), (3, 2), (4, 3), (6, 3), (7, 3), (8, 4)])
def test_count_bits(limit, bits):
    assert count_bits(limit) == bits


def test_fp16():
    assert (FP16.width, FP16.bias, FP16.significand_bits, FP16.least_exponent, FP16.exponent_range) == (
        16,
        15,
        11,
        -24,
        30,
    )
    shape = FixedPoint(FP16, FP16, 16)
    assert (shape.significand_bits, shape.max_shift, shape.product_bits, shape.width) == (22, 58, 80, 97)
    assert shape.least_exponent == -48


def test_formats_differ_by_side():
    narrow = FloatFormat(name="narrow", exponent_bits=4, fraction_bits=3)
    assert ports(Multiplier(a_format=narrow, b_format=FP16))["product"] == ("out", (4 + 11) + 6 + 3)
    assert FixedPoint(narrow, FP16, 0).least_exponent == (1 - 7 - 3) - 24


@pytest.mark.parametrize(
    ("sparsity", "pipeline", "latency"),
    [("none", 1, 0), ("none", 2, 1), ("none", 3, 2), ("rows", 1, 0), ("rows", "auto", 1), ("both", 3, 2)],
)
def test_latency(sparsity, pipeline, latency):
    assert Tile(TileConfig(sparsity=sparsity, pipeline=pipeline)).latency == latency


def test_equal_parameters_give_equal_identities():
    assert PE(**RIGHT[PE]).identity == PE(**RIGHT[PE]).identity
    assert PE(**RIGHT[PE]).identity != PE(**{**RIGHT[PE], "stages": 3}).identity
    assert Scheduler(PAPER).identity == Scheduler(Connectivity(PAPER_OPTIONS, lanes=4, depth=4)).identity
