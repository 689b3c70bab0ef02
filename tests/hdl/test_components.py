"""Components: every parameter's error by its message, and the sizes that follow from parameters."""

from dataclasses import replace
from typing import Any

import pytest

from tensordash import Connectivity, Tile, TileConfig, load_preset
from tensordash.arithmetic.accumulator import ExactAccumulator
from tensordash.arithmetic.addend_accumulator import AddendAccumulator
from tensordash.arithmetic.bias_aligner import BiasAligner
from tensordash.arithmetic.converter import Converter
from tensordash.arithmetic.fused_accumulator import FusedAccumulator
from tensordash.arithmetic.fused_initial_adder import FusedInitialAdder
from tensordash.arithmetic.fused_result import FusedResult
from tensordash.arithmetic.integer_accumulator import IntegerAccumulator
from tensordash.arithmetic.integer_result import IntegerResult
from tensordash.arithmetic.multiplier import Multiplier
from tensordash.arithmetic.product_sum import ProductSum
from tensordash.arithmetic.rounder import Rounder
from tensordash.arithmetic.sum_adder import SumAdder
from tensordash.block import Block
from tensordash.configuration.connectivity import PAPER_OPTIONS
from tensordash.configuration.formats import FORMATS, FloatFormat
from tensordash.configuration.numerics import Exact, Fused, Numerics
from tensordash.emission.verilog import members
from tensordash.layouts import FixedPoint
from tensordash.schedule.operand_flags import OperandFlags
from tensordash.schedule.operand_mux import OperandMux
from tensordash.schedule.row_scheduler import RowScheduler
from tensordash.schedule.scheduler import Scheduler
from tensordash.schedule.staging_buffer import StagingBuffer
from tensordash.schedule.staging_ring import StagingRing
from tensordash.streams.axi_stream import AxiStreamTile
from tensordash.streams.block_quantiser import BlockQuantiser
from tensordash.streams.ring_feeder import RingFeeder
from tensordash.streams.step_feeder import StepFeeder
from tensordash.streams.transposer import Transposer
from tensordash.tile.control import Control, count_bits
from tensordash.tile.counters import Counters
from tensordash.tile.drain import Drain
from tensordash.tile.flags import Flags
from tensordash.tile.initial_store import InitialStore
from tensordash.tile.output_buffer import OutputBuffer
from tensordash.tile.pe import PE
from tensordash.tile.scheduled_pe import ScheduledPE
from tensordash.tile.self_scheduled_pe import SelfScheduledPE
from tensordash.tile.snapshot import Snapshot

FP16 = FORMATS["fp16"]
assert isinstance(FP16, FloatFormat)
PAPER = Connectivity(PAPER_OPTIONS, lanes=4, depth=4)
TURNING = Connectivity([(0, 0), (1, 1), (2, 0), (1, 0), (2, 1)], lanes=4, depth=3)
INT8 = FORMATS["int8"]
EXACT = Numerics(a_format=FP16, b_format=FP16, accumulator=Exact(16))
FUSED = Numerics(a_format=FP16, b_format=FP16, accumulator=Fused(23, "zero"))
AFTER = Numerics(a_format=FP16, b_format=FP16, accumulator=Fused(25, "zero", addend="after"))
INTEGER = Numerics(a_format=INT8, b_format=INT8, accumulator=Exact(16))
NUMBERS: dict[str, Any] = {"numerics": EXACT}

RIGHT = {
    StagingBuffer: {"width": 16, "lanes": 4, "depth": 4},
    StagingRing: {"width": 16, "lanes": 4, "depth": 4},
    PE: {**NUMBERS, "lanes": 4, "stages": 2},
    ExactAccumulator: {**NUMBERS, "lanes": 4, "stages": 1},
    FusedAccumulator: {"numerics": FUSED, "lanes": 4, "stages": 1},
    AddendAccumulator: {"numerics": AFTER, "lanes": 4, "stages": 1},
    ProductSum: {"numerics": AFTER, "lanes": 4},
    FusedInitialAdder: {
        "numerics": Numerics(a_format=FP16, b_format=FP16, accumulator=Fused(23, "zero", addend="last"), initial=True)
    },
    FusedResult: {"accumulator": Fused(23, "zero")},
    IntegerAccumulator: {"numerics": INTEGER, "lanes": 4, "stages": 1},
    IntegerResult: {"width": 32, "initial": False},
    Rounder: {"width": 97, "least_exponent": -48},
    BiasAligner: {"width": 97, "least_exponent": -48},
    SumAdder: {"width": 97, "biased": True},
    InitialStore: {"rows": 4, "columns": 4, "out_rows": 1, "at_once": False, "floating": True},
    Exact: {"headroom_bits": 16},
    Fused: {"fraction_bits": 23, "rounding": "zero"},
    Numerics: {"a_format": FP16, "b_format": FP16, "accumulator": Exact(16)},
    Drain: {**NUMBERS, "rows": 4, "columns": 4, "out_rows": 1},
    Transposer: {"width": 16, "lanes": 4},
    BlockQuantiser: {"fmt": FORMATS["fp4_e2m1"], "lanes": 4},
    Converter: {"fmt": FP16},
    Control: {"ports": 8, "schedulers": 4, "depth": 4, "full_window": False, "initial": False},
    Counters: {"rows": 4, "depth": 4, "selections": 16},
    Flags: {},
    Snapshot: {"rows": 4},
    OutputBuffer: {"out_rows": 1, "columns": 4},
    OperandFlags: {"fmt": FP16, "lanes": 4, "depth": 4, "zeros": True},
    OperandMux: {"width": 16, "connectivity": PAPER},
    ScheduledPE: {**NUMBERS, "connectivity": PAPER, "stages": 2},
    SelfScheduledPE: {**NUMBERS, "connectivity": PAPER, "stages": 2},
}

WRONG = [
    (StagingBuffer, {"width": 0}, ValueError, "width must be an integer of at least 1, not 0"),
    (StagingBuffer, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (StagingBuffer, {"depth": 0}, ValueError, "depth must be an integer of at least 1, not 0"),
    (StagingBuffer, {"depth": 2.0}, TypeError, r"depth must be an integer of at least 1, not 2\.0"),
    (StagingRing, {"width": 0}, ValueError, "width must be an integer of at least 1, not 0"),
    (StagingRing, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (StagingRing, {"depth": "4"}, TypeError, "depth must be an integer of at least 1, not '4'"),
    (StagingBuffer, {"width": True}, TypeError, "width must be an integer of at least 1, not True"),
    (PE, {"stages": 0}, ValueError, "stages must be an integer from 1 to 3, not 0"),
    (PE, {"stages": 4}, ValueError, "stages must be an integer from 1 to 3, not 4"),
    (PE, {"stages": "2"}, TypeError, "stages must be an integer from 1 to 3, not '2'"),
    (PE, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (ExactAccumulator, {"stages": 3}, ValueError, "stages must be an integer from 1 to 2, not 3"),
    (ExactAccumulator, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (ExactAccumulator, {"numerics": FUSED}, ValueError, "numerics must be floating-point and exact, not Numerics"),
    (ExactAccumulator, {"numerics": INTEGER}, ValueError, "numerics must be floating-point and exact, not Numerics"),
    (FusedAccumulator, {"numerics": EXACT}, ValueError, "numerics must be floating-point and fused, not Numerics"),
    (FusedAccumulator, {"stages": 0}, ValueError, "stages must be an integer from 1 to 2, not 0"),
    (FusedAccumulator, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (
        FusedAccumulator,
        {"numerics": AFTER},
        ValueError,
        'numerics must have accumulator.addend = "inside" or "last", not "after"',
    ),
    (AddendAccumulator, {"numerics": EXACT}, ValueError, "numerics must be floating-point and fused, not Numerics"),
    (
        AddendAccumulator,
        {"numerics": FUSED},
        ValueError,
        'numerics must have accumulator.addend = "after", not "inside"',
    ),
    (AddendAccumulator, {"stages": 3}, ValueError, "stages must be an integer from 1 to 2, not 3"),
    (AddendAccumulator, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (ProductSum, {"numerics": INTEGER}, ValueError, "numerics must be floating-point and fused, not Numerics"),
    (ProductSum, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (
        FusedInitialAdder,
        {"numerics": FUSED},
        ValueError,
        'numerics must have a fused accumulator with addend = "last", not fused 23, zero',
    ),
    (FusedResult, {"accumulator": 23}, TypeError, "accumulator must be Fused, not 23"),
    (IntegerAccumulator, {"stages": 3}, ValueError, "stages must be an integer from 1 to 2, not 3"),
    (IntegerAccumulator, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (IntegerAccumulator, {"numerics": EXACT}, ValueError, "numerics must be integer, not Numerics"),
    (IntegerResult, {"width": 33}, ValueError, "width must be an integer from 2 to 32, not 33"),
    (Rounder, {"width": 1}, ValueError, "width must be an integer of at least 2, not 1"),
    (Rounder, {"least_exponent": -127}, ValueError, "width .* must stay within FP32's normal numbers$"),
    (Rounder, {"width": 200}, ValueError, "width .* must stay within FP32's normal numbers$"),
    (BiasAligner, {"width": 1}, ValueError, "width must be an integer of at least 2, not 1"),
    (BiasAligner, {"least_exponent": -127}, ValueError, "width .* must stay within FP32's normal numbers$"),
    (BiasAligner, {"least_exponent": 90}, ValueError, "width .* must stay within FP32's normal numbers$"),
    (SumAdder, {"width": 1}, ValueError, "width must be an integer of at least 2, not 1"),
    (SumAdder, {"biased": 1}, TypeError, "biased must be true or false, not 1"),
    (InitialStore, {"out_rows": 3}, ValueError, "out_rows must divide rows = 4, not 3"),
    (InitialStore, {"at_once": 1}, TypeError, "at_once must be true or false, not 1"),
    (Exact, {"headroom_bits": -1}, ValueError, "headroom_bits must be an integer from 0 to 64, not -1"),
    (Fused, {"fraction_bits": 7}, ValueError, r"accumulator\.fused must be an integer from 8 to 64, not 7"),
    (Fused, {"rounding": "up"}, ValueError, r"accumulator\.rounding must be one of nearest, zero, not 'up'"),
    (Fused, {"result_bits": 6}, ValueError, r"accumulator\.result_bits must be an integer from 7 to 23, not 6"),
    (Fused, {"addend": "in"}, ValueError, r"accumulator\.addend must be one of after, inside, last, not 'in'"),
    (Fused, {"zero_exponent": 0}, ValueError, r"accumulator\.zero_exponent must be .* -149 to -126, not 0"),
    (Numerics, {"b_format": INT8}, ValueError, "format must be floating-point on both sides or int8 on both"),
    (Numerics, {"a_format": FORMATS["bf16"]}, ValueError, "accumulator must be fused for bf16"),
    (Drain, {"rows": 0}, ValueError, "rows must be an integer of at least 1, not 0"),
    (Drain, {"columns": 0}, ValueError, "columns must be an integer of at least 1, not 0"),
    (Drain, {"out_rows": 0}, ValueError, "out_rows must be an integer from 1 to 4, not 0"),
    (Drain, {"out_rows": 5}, ValueError, "out_rows must be an integer from 1 to 4, not 5"),
    (Drain, {"out_rows": 3}, ValueError, "out_rows must divide rows = 4, not 3"),
    (Transposer, {"width": 0}, ValueError, "width must be an integer of at least 1, not 0"),
    (BlockQuantiser, {"fmt": FP16}, ValueError, "fmt must have at most 8 bits, not fp16 of 16"),
    (BlockQuantiser, {"lanes": 3}, ValueError, "lanes must divide the block of 32, not 3"),
    (BlockQuantiser, {"lanes": 32}, ValueError, "lanes must be an integer from 1 to 16, not 32"),
    (Converter, {"fmt": FORMATS["fp4_e2m1"]}, ValueError, "saturating must be true for fp4_e2m1, which has no NaN"),
    (Transposer, {"lanes": 1}, ValueError, "lanes must be an integer of at least 2, not 1"),
    (Transposer, {"lanes": None}, TypeError, "lanes must be an integer of at least 2, not None"),
    (Control, {"ports": 0}, ValueError, "ports must be an integer of at least 1, not 0"),
    (Control, {"schedulers": -1}, ValueError, "schedulers must be an integer of at least 0, not -1"),
    (Control, {"depth": 0}, ValueError, "depth must be an integer of at least 1, not 0"),
    (Counters, {"rows": 0}, ValueError, "rows must be an integer of at least 1, not 0"),
    (Counters, {"depth": 0}, ValueError, "depth must be an integer of at least 1, not 0"),
    (Counters, {"selections": 0}, ValueError, "selections must be an integer of at least 1, not 0"),
    (Snapshot, {"rows": 0}, ValueError, "rows must be an integer of at least 1, not 0"),
    (OutputBuffer, {"out_rows": 0}, ValueError, "out_rows must be an integer of at least 1, not 0"),
    (OutputBuffer, {"columns": None}, TypeError, "columns must be an integer of at least 1, not None"),
    (OperandFlags, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (OperandFlags, {"depth": 0}, ValueError, "depth must be an integer of at least 1, not 0"),
    (OperandMux, {"width": 0}, ValueError, "width must be an integer of at least 1, not 0"),
    (ScheduledPE, {"stages": 4}, ValueError, "stages must be an integer from 1 to 3, not 4"),
    (SelfScheduledPE, {"stages": 0}, ValueError, "stages must be an integer from 1 to 3, not 0"),
]


@pytest.mark.parametrize("kind", RIGHT)
def test_right_parameters(kind):
    made = kind(**RIGHT[kind])
    assert not isinstance(made, Block) or isinstance(made.identity, tuple)


@pytest.mark.parametrize(
    ("kind", "change", "error", "message"), WRONG, ids=[f"{kind.__name__}-{change}" for kind, change, _, _ in WRONG]
)
def test_wrong_parameter(kind, change, error, message):
    with pytest.raises(error, match=f"^{message}"):
        kind(**{**RIGHT[kind], **change})


@pytest.mark.parametrize("config", ["x", None, {"rows": 4}])
def test_tile_wants_a_config(config):
    with pytest.raises(TypeError, match="^config must be a TileConfig, not "):
        Tile(config)


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
    expected = {
        **COUNTER_PORTS,
        "out_payload": ("out", 4 * 32 + 1),
        "out_valid": ("out", 1),
        "out_ready": ("in", 1),
    }
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


def test_ports_of_an_odd_tile():
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
        (
            Scheduler(PAPER),
            {"effectual": 16, "eligible": 4, "select": 32, "remaining": 16, "advance": 4},
        ),
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
        (
            PE(**NUMBERS, lanes=4, stages=2),
            {"a": 64, "b": 64, "active": 4, **SUM_PORTS, "sum_value": 97 + 2},
        ),
        (
            PE(numerics=replace(FUSED, initial=True), lanes=4, stages=2),
            {"a": 64, "b": 64, "active": 4, **SUM_PORTS, "sum_c": 32, "sum_value": 32 + 2},
        ),
        (
            PE(numerics=INTEGER, lanes=4, stages=2),
            {"a": 32, "b": 32, "active": 4, **SUM_PORTS, "sum_value": 32},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_widths(block, expected):
    assert {name: width for name, (_, width) in ports(block).items()} == expected


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


def test_identity_decides_what_is_shared():
    assert PE(**RIGHT[PE]).identity == PE(**RIGHT[PE]).identity
    assert PE(**RIGHT[PE]).identity != PE(**{**RIGHT[PE], "stages": 3}).identity
    assert Scheduler(PAPER).identity == Scheduler(Connectivity(PAPER_OPTIONS, lanes=4, depth=4)).identity
