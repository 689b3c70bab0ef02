"""Test that the proof framework proves true properties of a toy component and refutes false ones."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from tensordash import TileConfig
from tensordash.block import Block
from tensordash_formal.harness import Harness, Stub
from tensordash_formal.proof import BrokenVariant, Proof
from tensordash_formal.solver import BITWUZLA, ProofError, Query, Solver, read_log
from tensordash_formal.suite import Suite
from tensordash_storage.jobs import Runner

CONFIG = TileConfig(rows=1, columns=1)
ONE_PROCESS = Runner(workers=1)


class Wheel(Block):
    """Counts 0, 1, 2, 0, ... while `turn` is set."""

    def __init__(self) -> None:
        super().__init__({"turn": In(1), "at": Out(2)})

    def elaborate(self, platform):
        m = Module()
        place = Signal(2)
        with m.If(self.turn):
            m.d.sync += place.eq(place + 1)
            with m.If(place == 2):
                m.d.sync += place.eq(0)
        m.d.comb += self.at.eq(place)
        return m


def wheel(config, fault=None):
    dut = Wheel()
    harness = Harness(dut, fault=fault)
    harness.claim("below_three", dut.at != 3)
    return harness


PROOF = Proof(
    name="wheel",
    build=wheel,
    applies=lambda config: True,
    broken_variants=(
        BrokenVariant(
            claim="below_three",
            title="it skips zero",
            kind=Wheel,
            fault=lambda m, sound, outer: outer.at.eq(sound.at + 1),
        ),
    ),
)


def prove(build, folder, **changes):
    return replace(PROOF, build=build, **changes).prove(CONFIG, Solver(folder))


def test_a_true_property_is_proven(tmp_path):
    (result,) = prove(wheel, tmp_path)
    assert (result.name, result.bound, result.result, result.cover) == ("wheel.below_three", "induction", "proven", 1)


def test_a_broken_variant_is_refuted(tmp_path):
    refutation = PROOF.refute(PROOF.broken_variants[0], Solver(tmp_path))
    assert (refutation.name, refutation.title, refutation.cycle) == ("wheel.below_three", "it skips zero", 3)
    assert list(tmp_path.glob("*/model/engine_0/trace.vcd"))


def test_a_false_property_is_refuted(tmp_path):
    def build(config, fault=None):
        harness = wheel(config, fault)
        harness.claim("below_two", harness.block.at != 2)
        return harness

    below_three, below_two = prove(build, tmp_path, depth=5)
    assert below_three.result == "unknown"  # The run ended with a counterexample to the other claim.
    assert below_two.result == "refuted"


def test_a_property_that_is_not_inductive_is_unknown(tmp_path):
    class Hidden(Block):
        """Counts 0, 1, 2, 0, ...; from the unreachable state 4 it would count to 7."""

        def __init__(self) -> None:
            super().__init__({"wrong": Out(1)})

        def elaborate(self, platform):
            m = Module()
            at = Signal(3)
            m.d.sync += at.eq(Mux(at == 2, 0, at + 1))
            m.d.comb += self.wrong.eq(at == 7)
            return m

    def build(config, fault=None):
        dut = Hidden()
        harness = Harness(dut, fault=fault)
        harness.claim("never_wrong", ~dut.wrong)
        return harness

    assert [result.result for result in prove(build, tmp_path)] == ["unknown"]


def partitioned(*claims):
    """Build wheels with one query per claim; each query assumes all claims in the previous cycle."""

    def build(config, fault=None):
        dut = Wheel()
        harness = Harness(dut, fault=fault, partitions=len(claims))
        before = harness.past(dut.at)
        known = {
            "below_three": dut.at != 3,
            "below_two": dut.at < 2,
            "two_follows_one": (dut.at != 2) | (before != 0),
            "never_from_two_to_three": (dut.at != 3) | (before != 2),
        }
        for claim in claims:
            harness.claim(claim, known[claim])
        return harness

    return build


def test_partitioned_properties_are_proven(tmp_path):
    results = prove(partitioned("below_three", "two_follows_one"), tmp_path)
    assert {result.result for result in results} == {"proven"}
    assert len(list(tmp_path.iterdir())) == 3  # two queries, and covers


def test_a_false_property_in_a_partition_is_refuted(tmp_path):
    results = prove(partitioned("below_three", "below_two"), tmp_path, depth=5)
    assert {result.name: result.result for result in results} == {
        "wheel.below_three": "unknown",  # another query has a counterexample
        "wheel.below_two": "refuted",
    }


def test_a_broken_variant_is_refuted_without_assumptions_of_partitions(tmp_path):
    build = partitioned("below_three", "never_from_two_to_three")
    refutation = replace(PROOF, build=build).refute(PROOF.broken_variants[0], Solver(tmp_path))
    assert refutation.cycle == 3


@pytest.mark.parametrize(("skip", "cycle"), [(None, 3), (5, 5)])
def test_the_search_for_a_counterexample_begins_at_the_given_cycle(tmp_path, skip, cycle):
    variant = replace(PROOF.broken_variants[0], skip=skip)
    assert PROOF.refute(variant, Solver(tmp_path)).cycle == cycle


def test_an_unreached_cover_is_a_failure(tmp_path):
    def build(config, fault=None):
        dut = Wheel()
        harness = Harness(dut, fault=fault)
        harness.claim("three_is_even", 0, when=dut.at == 3)
        harness.lemma(dut.at != 3)
        return harness

    (result,) = prove(build, tmp_path)
    assert (result.result, result.cover) == ("proven", None)
    report = Suite(((replace(PROOF, build=build), "toy", CONFIG),)).run(tmp_path, ONE_PROCESS)
    assert report.failures() == [
        "toy: wheel.three_is_even has an unreached cover",
        "wheel.three_is_even has no broken variant",
    ]


def test_contradicting_assumptions_are_an_error(tmp_path):
    def build(config, fault=None):
        harness = wheel(config, fault)
        harness.assume(harness.block.turn)
        harness.assume(~harness.block.turn)
        return harness

    with pytest.raises(ProofError, match="SymbiYosys failed"):
        prove(build, tmp_path)


def test_an_empty_suite_fails(tmp_path):
    assert Suite(()).run(tmp_path, ONE_PROCESS).failures() == ["nothing was proven"]
    with pytest.raises(ProofError, match="wheel claims nothing of"):
        prove(lambda config, fault=None: Harness(Wheel(), fault=fault), tmp_path)


def test_a_variant_that_is_not_broken_fails(tmp_path):
    sound = replace(PROOF.broken_variants[0], title="all is well", fault=lambda m, sound, outer: [])
    report = Suite(((PROOF, "toy", CONFIG),), ((PROOF, sound),)).run(tmp_path, ONE_PROCESS)
    assert report.failures() == ["wheel.below_three holds though all is well"]
    assert not report.to_json()["passed"]


def test_broken_variant_of_an_unknown_claim_fails(tmp_path):
    gone = replace(PROOF.broken_variants[0], claim="above_three")
    with pytest.raises(ProofError, match="wheel has no claim 'above_three': below_three"):
        PROOF.refute(gone, Solver(tmp_path))


def test_a_claim_without_a_broken_variant_fails(tmp_path):
    report = Suite(((replace(PROOF, broken_variants=()), "toy", CONFIG),)).run(tmp_path, ONE_PROCESS)
    assert report.failures() == ["wheel.below_three has no broken variant"]


def test_the_report_is_complete(tmp_path):
    report = Suite(((PROOF, "toy", CONFIG),), ((PROOF, PROOF.broken_variants[0]),)).run(tmp_path, ONE_PROCESS)
    document = json.loads(json.dumps(report.to_json()))
    assert document["passed"]
    (entry,) = document["properties"]
    assert entry.pop("seconds") > 0
    assert entry == {"name": "wheel.below_three", "preset": "toy", "bound": "induction", "result": "proven"}
    assert document["covers"] == [{"name": "wheel.below_three", "preset": "toy", "cycle": 1}]
    (entry,) = document["broken"]
    assert entry.pop("seconds") > 0
    assert entry == {"name": "wheel.below_three", "title": "it skips zero", "cycle": 3, "refuted": True}


def test_answers_are_cached(tmp_path):
    first = prove(wheel, tmp_path)
    for model in tmp_path.glob("*/model.sby"):
        model.unlink()
    assert prove(wheel, tmp_path) == first
    assert not list(tmp_path.glob("*/model.sby")), "the query ran again"


def test_two_equal_queries_at_once(tmp_path):
    """Like two processes: both get a complete answer, and one answer is cached."""
    together = threading.Barrier(2)

    def ask(_) -> list:
        together.wait()
        return prove(wheel, tmp_path)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(ask, range(2))
    assert [result.result for result in first] == [result.result for result in second] == ["proven"]
    cached = [entry for entry in tmp_path.iterdir() if (entry / "answer.json").exists()]
    assert sorted(tmp_path.iterdir()) == sorted(cached)
    assert prove(wheel, tmp_path) in (first, second)


@pytest.mark.parametrize("text", ["(check-sat", "(assert undeclared)\n"])
def test_the_solver_program_fails_on_text_that_it_cannot_read(text):
    done = subprocess.run([sys.executable, BITWUZLA], input=text, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stdout == ""


def test_another_query_is_run(tmp_path):
    prove(wheel, tmp_path)
    count = len(list(tmp_path.iterdir()))
    prove(wheel, tmp_path, depth=2)
    assert len(list(tmp_path.iterdir())) == count + 1


def test_an_interrupt_ends_queries_and_caches_no_answer(tmp_path):
    # Solvers need hours for this multiplier.
    class Hard(Block):
        def __init__(self) -> None:
            super().__init__({"a": In(40), "b": In(40), "c": Out(80)})

        def elaborate(self, platform):
            m = Module()
            m.d.comb += self.c.eq(self.a * self.b)
            return m

    def build(config, fault=None):
        dut = Hard()
        harness = Harness(dut, fault=fault)
        harness.claim("no_such_product", dut.c != 0xB504F333F9DE6484597D, when=(dut.a > 1) & (dut.b > 1))
        return harness

    threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        prove(build, tmp_path)
    assert time.monotonic() - start < 30
    assert not list(tmp_path.iterdir())


def test_a_query_without_an_answer_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr("tensordash_formal.solver.TIME_LIMIT_S", 0.1)
    with pytest.raises(ProofError, match="no answer within 0 seconds"):
        prove(wheel, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_missing_tool_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name, path: None)
    with pytest.raises(ProofError, match=r"yowasp-[\w-]+ must be among .*: pip install .*\[prove\]"):
        prove(wheel, tmp_path)


def test_solver_error_is_reported(tmp_path):
    query = Query(mode="prove", depth=1, script=("no_such_command",), files={})
    with pytest.raises(ProofError, match="no_such_command"):
        Solver(tmp_path).solve(query)
    with pytest.raises(ProofError, match="SymbiYosys failed"):
        read_log("no result", 1.0)


def test_a_stub_replaces_a_component(tmp_path):
    class StillWheel(Elaboratable):
        def __init__(self, wheel: Wheel) -> None:
            self.wheel = wheel

        def elaborate(self, platform):
            m = Module()
            unused = Signal()
            m.d.sync += unused.eq(self.wheel.turn)
            return m

    def build(config, fault=None):
        dut = Wheel()
        harness = Harness(dut, stubs=(Stub(Wheel, StillWheel),), fault=fault)
        harness.claim("never_moves", dut.at == 0)
        return harness

    assert [result.result for result in prove(build, tmp_path)] == ["proven"]
