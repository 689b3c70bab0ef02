"""Run each proof for one tile or core; `make prove` runs all of them."""

import os
import re

import pytest

from tensordash import TileConfig, generate, load_preset, preset_names
from tensordash.configuration.preset import load_any_preset
from tensordash.core.core import Core
from tensordash.emission.library import Library
from tensordash_formal.proof import BrokenVariant, Proof
from tensordash_formal.proofs import CORE_PROOFS, PROOFS, binned_accumulator, pass_filter
from tensordash_formal.proofs.core_axi import PortHarness
from tensordash_formal.solver import Solver
from tensordash_formal.suite import CORNER_CONFIGS, full_suite
from tensordash_formal.tile_harness import TileHarness

# The paper's tile, and for each proof the tiles that differ most from it.
TILES = {"paper": load_preset("paper")} | {
    name: CORNER_CONFIGS[name] for name in ("two-lanes", "dense-one-stage", "with-c-fused", "int8-with-c", "fp8-e4m3")
}
# fp8 changes only the arithmetic of the paper's tile; the other proofs run at night.
INDEPENDENT_OF_FP8 = ("drain", "tile", "tile_control", "axi_stream")
# Long proofs that other tiles mostly cover. They run at night.
LONG_PROOFS = (
    "tile-paper",
    "tile_control-paper",
    "axi_stream-with-c-fused",
    "tile-with-c-fused",
    "tile_control-with-c-fused",
    "tile_control-int8-with-c",
    "tile-int8-with-c",
    "accumulator-fp8-e4m3",
    "accumulator-paper",
    "axi_stream-paper",
    "tile-ring",
    "tile_control-ring",
    "axi_stream-ring",
)
CASES = [
    pytest.param(
        proof,
        config,
        id=f"{proof.name}-{name}",
        marks=pytest.mark.slow
        if (name == "fp8-e4m3" and proof.name in INDEPENDENT_OF_FP8) or f"{proof.name}-{name}" in LONG_PROOFS
        else (),
    )
    for name, config in TILES.items()
    for proof in PROOFS
    if proof.applies(config) and not (proof.name == "rounder" and name in ("two-lanes", "dense-one-stage"))
]
"""The rounders of the two excluded presets equal the paper's."""
# For a ring, only the proofs that depend on it.
CASES += [
    pytest.param(
        proof,
        CORNER_CONFIGS["ring"],
        id=f"{proof.name}-ring",
        marks=pytest.mark.slow if f"{proof.name}-ring" in LONG_PROOFS else (),
    )
    for proof in PROOFS
    if proof.name in ("operand_mux", "staging_ring", "tile", "tile_control", "axi_stream")
]
# For a tile with scales, only the proofs that have scales.
CASES += [
    pytest.param(proof, CORNER_CONFIGS["with-scales"], id=f"{proof.name}-with-scales")
    for proof in PROOFS
    if proof.name in ("tile", "tile_control", "axi_stream")
]
# The proof of binned sums: small bins in CI, bins of bf16 at night.
CASES += [
    pytest.param(
        binned_accumulator.PROOF,
        binned_accumulator.PROOF.broken_config,
        id="binned_accumulator-small",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        binned_accumulator.PROOF,
        CORNER_CONFIGS["bf16-binned"],
        id="binned_accumulator-bf16-binned",
        marks=pytest.mark.slow,
    ),
]
# CI proves a core's wires, register port, adders and buffers. All proofs of all presets run at night.
QUICK_CORE_PROOFS = (
    "core_wiring-core",
    "core_axi_lite-core",
    "binned_adder-core-bf16",
    "binned_bias-core-bf16",
    "integer_adder-core-int8",
    "integer_converter-core-int8",
    "join-core",
    "buffer-core",
    "stream_buffer-core",
    "pass_filter-core-skip",
    "step_index-core-drop",
    "step_walk-core-drop",
    "indexed_feed-core-drop",
)
CASES += [
    pytest.param(pass_filter.PROOF, pass_filter.SEVERAL_GROUPS, id="pass_filter-several-groups", marks=pytest.mark.slow)
]
CASES += [
    pytest.param(
        proof,
        load_any_preset(name),
        id=f"{proof.name}-{name}",
        marks=() if f"{proof.name}-{name}" in QUICK_CORE_PROOFS else pytest.mark.slow,
    )
    for name in preset_names("core")
    for proof in CORE_PROOFS
    if proof.applies(load_any_preset(name))
]
# CI proves each component for one tile: the first of these that has it, whose proof is short.
QUICK_TILES = ("two-lanes", "dense-one-stage", "fp8-e4m3", "int8-with-c", "with-c-fused", "ring", "paper")


def _sample(cases):
    """Mark all but one test of each proof as slow, in the order of `QUICK_TILES`."""
    order = {name: k for k, name in enumerate(QUICK_TILES)}
    quick = [case for case in cases if not case.marks]
    quick.sort(key=lambda case: order.get(case.id.partition("-")[2], len(order)))
    chosen = {case.values[0].name: case.id for case in reversed(quick)}
    for case in cases:
        is_chosen = case.id in chosen.values()
        yield pytest.param(*case.values, id=case.id, marks=() if is_chosen else pytest.mark.slow)


LONG_TO_REFUTE = ("row_wait_grows", "a_finished_block_is_offered", "overflow_is_right")
# CI refutes one variant of each of a proof's first claims. All variants run at night, as in `make prove`.
CLAIMS_PER_PROOF = 3


def _first_claims(proof, index):
    """Return the first claims if this is the first variant of its claim."""
    claims = list(
        dict.fromkeys(variant.claim for variant in proof.broken_variants if variant.claim not in LONG_TO_REFUTE)
    )
    is_repeated = proof.broken_variants[index].claim in [variant.claim for variant in proof.broken_variants[:index]]
    return () if is_repeated else claims[:CLAIMS_PER_PROOF]


BROKEN_VARIANTS = [
    pytest.param(
        proof,
        variant,
        id=f"{proof.name}-{variant.claim}-{index}",
        marks=pytest.mark.slow
        if variant.claim in LONG_TO_REFUTE or variant.claim not in _first_claims(proof, index)
        else (),
    )
    for proof in PROOFS
    for index, variant in enumerate(proof.broken_variants)
]

REFUTED_CORE_CLAIMS = (
    "control",
    "counts",
    "the_rest_of_a_group_leaves_at_its_place",
    "a_part_is_sent_after_its_units",
    "ar_burst_type",
    "r_within",
    "none_is_lost_and_none_repeated",
    "nothing_is_written_beyond_the_stream_buffer",
    "no_step_of_the_next_pass_is_offered",
    "the_error_is_the_first_descriptors",
    "runs_follow_the_loops",
    "each_bin_is_the_sum_of_both",
    "nothing_else_has_digits",
    "results_saturate",
    "the_total_is_the_sum",
    "beats_answer_the_oldest_burst",
    "no_request_starves",
    "a_bank_reads_unless_its_memory_is_written",
    "nothing_else_is_queued",
    "banks_without_a_step_are_empty",
)
BROKEN_VARIANTS += [
    pytest.param(
        proof,
        variant,
        id=f"{proof.name}-{variant.claim}-{index}",
        marks=() if variant.claim in REFUTED_CORE_CLAIMS else pytest.mark.slow,
    )
    for proof in CORE_PROOFS
    for index, variant in enumerate(proof.broken_variants)
]


@pytest.fixture(scope="session")
def solver(tmp_path_factory) -> Solver:
    """Return a solver whose cache all processes share, so that equal modules are proven once."""
    folder = tmp_path_factory.getbasetemp()
    return Solver((folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "answers")


@pytest.mark.parametrize(("proof", "config"), [*_sample(CASES)])
def test_every_property_holds_and_is_covered(proof: Proof, config: TileConfig, solver):
    results = proof.prove(config, solver)
    assert results
    assert {result.name: result.result for result in results} == {result.name: "proven" for result in results}
    assert [result.name for result in results if result.cover is None] == []
    claims = {result.name.partition(".")[2] for result in results}
    assert claims <= {variant.claim for variant in proof.broken_variants}, "a property without a broken variant"


@pytest.mark.sampled(14)
@pytest.mark.parametrize(("proof", "variant"), BROKEN_VARIANTS)
def test_no_property_holds_for_a_broken_variant(proof: Proof, variant: BrokenVariant, solver):
    refutation = proof.refute(variant, solver)
    assert refutation.cycle is not None, variant.title


def test_proven_verilog_is_generated_verilog(tmp_path):
    config = TileConfig(rows=2, columns=1)
    generate(config, tmp_path)
    generated = (tmp_path / "tensordash.v").read_text()
    proven = TileHarness(config).files["dut.v"]
    assert "module tensordash_tile(" in proven
    header, body = generated.split("\n\n", 1)
    assert all(line.startswith("//") for line in header.splitlines())
    assert proven == body


@pytest.mark.slow
def test_proven_core_is_generated_core():
    """Both differ only in the reset of deflate, which only the stub has."""
    config = load_any_preset("core")
    generated, proven = Library(), PortHarness(config)._library
    generated.module(Core(config))
    modules = {"registers", "command_queue", "load", "store", "read_arbiter", "axi_writer", "axi_reader__32_beats"}
    for name in modules:
        assert _without_reset_of_deflate(proven.texts[f"tensordash_{name}"]) == _without_reset_of_deflate(
            generated.texts[f"tensordash_{name}"]
        ), name


def _without_reset_of_deflate(text: str) -> str:
    """Return a module on one line without the reset of its instance of deflate."""
    return re.sub(r"(tensordash_deflate\w* \w+ \( [^;]*?)\.rst\(rst\), ", r"\1", " ".join(text.split()))


def test_the_full_suite_is_complete():
    suite = full_suite()
    named = {(proof.name, name) for proof, name, _ in suite.proofs}
    for tile in ("paper", "paper-16lane", "paper-bf16", "recommended", "recommended-2x8", "with-c"):
        assert {("tile", tile), ("tile_control", tile), ("scheduler", tile)} <= named
        assert ("staging_ring" if tile.startswith("recommended") else "staging_buffer", tile) in named
    assert {proof.name for proof, _, _ in suite.proofs} == {proof.name for proof in (*PROOFS, *CORE_PROOFS)}
    assert {
        (proof, name) for proof in ("core_axi", "soft_reset") for name in ("core", "core-dense", "core-fp8")
    } <= named
    assert {variant.claim for _, variant in suite.broken_variants} >= {
        "every_effectual_pair_is_consumed_once",
        "first_available_is_taken",
        "a_beat_stays_until_it_is_taken",
    }
