"""Test that mutants are built, killed, proven equivalent or reported as survivors."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tensordash import TileConfig, load_preset
from tensordash.configuration.preset import load_any_preset
from tensordash.emission.verilog import render
from tensordash_formal import campaigns, mutation, subjects
from tensordash_formal.campaigns import SMALL_CORE, campaign_of, full_campaigns
from tensordash_formal.mutant_results import MutationReport
from tensordash_formal.mutants import BitMutants
from tensordash_formal.mutation import mutate
from tensordash_formal.proofs import join
from tensordash_formal.solver import Solver
from tensordash_formal.subjects import JOINS, UNITS, components_of, subject_of
from tensordash_formal.wiring import KINDS, WiringMutants
from tensordash_sim.verify import simulator_names
from tensordash_storage.jobs import Runner
from tensordash_synth.equivalence import same_logic

pytestmark = pytest.mark.skipif("icarus" not in simulator_names(), reason="mutants run on Icarus")
SMALL = TileConfig(rows=1, columns=1, lanes=2, depth=2, format="fp8_e4m3", connectivity=((0, 0), (1, 0), (1, 1)))
PAPER = load_preset("paper")
ONE_PROCESS = Runner(workers=1)


def task_of(config, component, count=2, kind="bits"):
    campaign = campaign_of(config, "a tile", kind, count, (component,))
    return mutation._Task(campaign=campaign, component=component, seed=1, effort=0.05, proofs=False)


def test_mutants_are_found(tmp_path):
    campaigns = (campaign_of(SMALL, "a tile", "bits", 2, ("scheduler", "transposer")),)
    report = mutate(campaigns, tmp_path, seed=1, effort=0.05, proofs=False, runner=ONE_PROCESS)
    assert report.counts()["total"] == {"bench": 2, "proof": 0, "equivalent": 0, "survives": 0}
    assert report.counts()["bit"] == report.counts()["total"]
    assert all(each.detail and each.line for each in report.results)
    assert sum(report.finders().values()) == 2
    renamed = replace(campaigns[0], name="the same tile")
    cached = mutate([renamed], tmp_path, seed=1, effort=0.05, proofs=False, runner=ONE_PROCESS)
    assert [replace(each, campaign="a tile") for each in cached.results] == list(report.results), "results are cached"


def test_a_mutant_that_a_weak_bench_misses_survives(tmp_path, monkeypatch):
    """The bench never fails, so the mutant survives."""
    monkeypatch.setattr(mutation, "_simulate", lambda *_, **__: "")
    result = mutation._evaluate(task_of(SMALL, "scheduler"), tmp_path, 1)
    assert (result.outcome, result.detail) == ("survives", "")
    report = MutationReport(seed=1, results=(result,))
    assert "survives: a tile, scheduler 1, tensordash_scheduler" in report.table()
    assert json.loads(json.dumps(report.to_json()))["counts"]["total"]["survives"] == 1
    assert not report.finders()


def test_a_bench_that_fails_without_a_mutant_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(mutation, "_simulate", lambda *_, **__: "late: 1 is not 2")
    with pytest.raises(mutation.SimulatorError, match="fails without a mutant: late"):
        mutation._check_baseline(task_of(SMALL, "scheduler"), tmp_path, 0.05)


def test_mutant_that_hangs_the_simulator_is_killed(tmp_path, monkeypatch):
    """Mutants 2 and 4 of five never end, and the bench fails on mutant 3."""
    seen = []

    def simulate(task, simulation, bench, effort, *, options):
        seen.append(options["numbers"])
        with Path(options["answers"]).open("w") as answers:
            for number in options["numbers"]:
                if number in (2, 4):
                    return "the simulation did not end"
                answers.write(json.dumps([number, "late: 1 is not 2" if number == 3 else ""]) + "\n")
        return ""

    monkeypatch.setattr(mutation, "_simulate", simulate)
    monkeypatch.setattr(mutation, "_build_model", lambda task: (None, SimpleNamespace(folder=tmp_path)))
    found = mutation._screen(task_of(SMALL, "scheduler"), [1, 2, 3, 4, 5])
    never = "bench", "the simulation did not end"
    assert found == {2: never, 3: ("bench", "late: 1 is not 2"), 4: never}
    assert seen == [[1, 2, 3, 4, 5, 0], [1, 3, 4, 5, 0], [1, 3, 5, 0]]


def test_a_combinational_loop_is_stopped(tmp_path, monkeypatch):
    """One mutant closes a ring of inverters, so simulated time never advances."""
    monkeypatch.setattr(mutation, "SCREEN_CPU_SECONDS", 2)
    task = task_of(SMALL, "scheduler")
    mutants, _ = mutation._build_model.__wrapped__(task)
    ring = "  wire [1:0] ring = {ring[0], ~(ring[1] & mutant_select == 2)};\nendmodule"
    text = mutants.model()
    head, begin, rest = text.partition(f"module {mutants.top}(")
    (tmp_path / "all.v").write_text(head + begin + rest.replace("endmodule", ring, 1))
    closed = mutation.Simulation("icarus", mutants.top, [tmp_path / "all.v"], tmp_path / "run")
    monkeypatch.setattr(mutation, "_build_model", lambda task: (mutants, closed))
    assert mutation._screen(task, [2])[2] == ("bench", "the simulation did not end")


UNREACHED = """
module tensordash_unreached(clk, rst, in, out);
  input clk, rst, in;
  output out;
  wire never;
  reg [1:0] turn;
  always @(posedge clk) turn <= rst | (turn == 2'd2) ? 2'd0 : turn + 2'd1;
  assign never = turn == 2'd3;
  assign out = in & never;
endmodule
"""


def with_dead_logic(config):
    """Return a tile whose PE has a register for a state that is never reached."""
    files = render(config)
    text = files["tensordash.v"]
    module = re.search(r"^module tensordash_pe\b.*?^endmodule", text, re.MULTILINE | re.DOTALL)[0]
    instance = (
        "  wire dead;\n  tensordash_unreached unreached (\n    .clk(clk), .rst(rst), .in(sum_take), .out(dead)\n  );\n"
    )
    changed = module.replace(".sum_hold(sum_hold)", ".sum_hold(sum_hold | dead)", 1).replace(
        "endmodule", f"{instance}endmodule"
    )
    assert ".sum_hold(sum_hold | dead)" in changed
    return {**files, "tensordash.v": text.replace(module, changed) + UNREACHED}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bits", "wires"])
def test_a_mutant_in_dead_logic_survives(kind, tmp_path, monkeypatch):
    """No run or proof finds the mutant, but it differs in an unreachable state."""
    monkeypatch.setattr(subjects, "render", with_dead_logic)
    monkeypatch.setattr(mutation, "subject_of", subjects.subject_of.__wrapped__)
    monkeypatch.setattr(campaigns, "subject_of", subjects.subject_of.__wrapped__)
    task = task_of(SMALL, "pe", 300 if kind == "bits" else 60, kind)
    mutants, _ = mutation._build_model(task)
    at_the_gate = "assign out" if kind == "bits" else ".in(sum_take)"
    titles = re.compile(r"const. on bit 0 of A" if kind == "bits" else r"unreached\.in .*")
    dead = [each for each in mutants.mutants if at_the_gate in mutants.source(each) and titles.fullmatch(each.title)]
    result = mutation._evaluate(task, tmp_path, dead[0].number)
    assert (result.outcome, result.number) == ("survives", dead[0].number), result


@pytest.mark.slow
def test_a_proof_finds_a_mutant(tmp_path):
    mutants = BitMutants(subject_of(SMALL, "scheduler"), 2, 1, tmp_path)
    text = mutants.verilog(mutants.mutants[0])
    assert "scheduler" in mutation._failing_proofs(SMALL, "tensordash_scheduler", text, Solver(tmp_path / "proofs"))
    sound = mutants.verilog(None)
    assert not list(mutation._failing_proofs(SMALL, "tensordash_scheduler", sound, Solver(tmp_path / "proofs")))


def test_a_proof_that_stubs_the_module_is_not_run(monkeypatch):
    text = "module a(input x);\n  b b (.x(x));\nendmodule\nmodule b(input x);\nendmodule\n"
    harness = SimpleNamespace(files={"dut.v": text, "b.stub.il": ""})
    fields = {"name": "p", "queries": lambda _: ["query"]}
    proof = SimpleNamespace(applies=lambda _: True, build=lambda _: harness, is_quick=False, **fields)
    monkeypatch.setattr(mutation, "PROOFS", (proof,))
    queries = []
    solver = SimpleNamespace(solve=lambda query: queries.append(query) or SimpleNamespace(status="fail"))
    assert list(mutation._failing_proofs(SMALL, "a", text, solver)) == ["p"]
    assert list(mutation._failing_proofs(SMALL, "a", text, solver, quick=True)) == []
    assert list(mutation._failing_proofs(SMALL, "b", text, solver)) == []
    assert queries == ["query"]


def test_identical_verilog_is_equivalent(tmp_path, monkeypatch):
    mutants = BitMutants(subject_of(SMALL, "scheduler"), 2, 1, tmp_path)
    mutants.verilog = lambda mutant: mutants.text
    task = task_of(SMALL, "scheduler")
    monkeypatch.setattr(mutation, "_simulate", lambda *_, **__: "")
    assert mutation._classify(task, mutants, None, mutants.mutants[0], tmp_path)[0] == "equivalent"


@pytest.mark.parametrize(("bit", "outcome"), [(0, "equivalent"), (2, "survives")])
def test_a_unit_is_compared_in_its_reachable_states(bit, outcome, tmp_path, monkeypatch):
    """A command queue's reader starts at a descriptor of four beats, so two bits of its first address are 0."""
    mutants = BitMutants(subject_of(SMALL_CORE, "command_queue"), 20, 1, tmp_path)
    right = "axi_araddr = {beat[35:0], 4'd0};"
    assert right in mutants.text
    wrong = mutants.text.replace(right, f"axi_araddr = {{beat[35:0] & ~(36'd1 << {bit}), 4'd0}};")
    mutant = next(each for each in mutants.mutants if "axi_reader" in each.module)
    monkeypatch.setattr(mutants, "verilog", lambda mutant: wrong if mutant else mutants.text)
    monkeypatch.setattr(mutation, "_simulate", lambda *_, **__: "")
    task = task_of(SMALL_CORE, "command_queue")
    detail = "cec of the command_queue without what is in it" if outcome == "equivalent" else ""
    assert mutation._classify(task, mutants, None, mutant, tmp_path) == (outcome, detail)


def test_bit_mutants_of_a_tile_share_one_model(tmp_path):
    mutants = BitMutants(subject_of(SMALL, "tile"), 6, 2, tmp_path)
    model = mutants.model()
    assert model.count("$value$plusargs") == 1
    assert {each.module for each in mutants.mutants} - {"tensordash_scheduler", "tensordash_pe"}
    assert len(mutants.mutants) == 6


def test_wires_are_drawn_at_every_port_of_every_kind_of_instance(tmp_path):
    mutants = WiringMutants(subject_of(PAPER, "tile"), 200, 1, tmp_path)
    assert len(mutants.mutants) == 200
    assert {each.kind for each in mutants.mutants} == set(KINDS)
    cells = {name: nets.cells for name, nets in mutants._nets.items()}
    drawn = {(each.module, cells[each.module][each.cell]["type"], each.port) for each in mutants.mutants}
    all_ports = {(name, *place) for name, nets in mutants._nets.items() for place in nets.places()}
    assert drawn == all_ports
    pes = "tensordash_tile", "tensordash_scheduled_pe"
    ports = ("a_window", "b", "select", "active", "sum_start", "sum_hold", "rst", "sum_overflow", "sum_value")
    assert {(*pes, port) for port in ports} <= drawn
    assert len({(each.module, each.title) for each in mutants.mutants}) == 200
    assert all(f".{each.port}(" in mutants.source(each) for each in mutants.mutants)


def test_swapped_overflows_are_equivalent(tmp_path, monkeypatch):
    """Any of the overflows sets the flag. No bench finds the swap, and the check of the module proves equivalence."""
    task = task_of(replace(SMALL, columns=2), "tile", kind="wires")
    mutants = task.campaign.mutants("tile", 1, tmp_path)
    place = {"module": "tensordash_tile", "cell": "pe_0_0", "port": "sum_overflow", "other": "pe_0_1", "bit": -1}
    swap = replace(mutants.mutants[0], kind="swapped", **place)
    monkeypatch.setattr(mutation, "_simulate", lambda *_, **__: "")
    expected = "equivalent", "cec of its module without what is in it"
    assert mutation._classify(task, mutants, None, swap, tmp_path) == expected
    alone, *_ = mutants.cuts("tensordash_tile")
    both = mutants.verilog(replace(swap, kind="neighbour"))
    assert same_logic(mutants.verilog(None), both, "tensordash_tile", tmp_path, alone) is False


@pytest.mark.parametrize("component", ["read_join", "write_join"])
def test_the_proof_of_joins_applies_to_their_mutants(component):
    """A mutant replaces the module of this name in the proof, which must have the same ports and queues."""
    subject, emitted = subject_of(SMALL_CORE, component), join.PROOF.build(SMALL_CORE).files["dut.v"]
    assert len(subject.modules) == 2
    for name in subject.modules:
        assert mutation._module(subject.text, name) in emitted


@pytest.mark.slow
@pytest.mark.parametrize("component", [*UNITS, *JOINS])
def test_benches_of_a_core_pass_without_a_mutant(component, tmp_path):
    """A failure would end `make mutate`, with its default effort, before the first mutant of the component."""
    campaign = campaign_of(SMALL_CORE, "core, units", "bits", 1, (component,))
    report = mutate((campaign,), tmp_path, seed=0, effort=0.3, proofs=False, runner=ONE_PROCESS)
    assert len(report.results) == 1


@pytest.mark.slow
def test_wire_mutants_of_the_paper_tile_are_found(tmp_path):
    """The test runs one mutant of each kind, each at another port, in the paper's 4x4 tile."""
    task = task_of(PAPER, "tile", 200, "wires")
    mutants, simulation = mutation._build_model(task)
    assert not mutation._simulate(task, simulation, *task.subject.benches, 0.05, testcase="single_steps")
    selected = {}
    for each in mutants.mutants:
        if each.module == "tensordash_tile" and each.port not in {other.port for other in selected.values()}:
            selected.setdefault(each.kind, each)
    assert set(selected) == set(KINDS)
    results = mutation._evaluate_batch(task, tmp_path, [each.number for each in selected.values()])
    assert {each.outcome for each in results} == {"bench"}, results
    assert all("golden has" in each.detail for each in results), "killed by their behaviour"


@pytest.mark.slow
def test_every_campaign_draws_every_port(tmp_path):
    for campaign in full_campaigns():
        for component, count in campaign.parts if campaign.kind == "wires" else ():
            mutants = campaign.mutants(component, 0, tmp_path)
            assert sum(len(nets.places()) for nets in mutants._nets.values()) <= count


def test_a_core_that_skips_passes_has_its_own_multiply_and_bench():
    subject = subject_of(load_any_preset("core-skip"), "multiply")
    assert subject.benches == ("tensordash_sim.verify.units.skipping_multiply",)
    assert {"tensordash_skipping_multiply", "tensordash_pass_filter"} <= set(subject.modules)


def test_a_core_that_drops_steps_has_its_own_layout_and_multiply_and_their_benches():
    config = load_any_preset("core-drop")
    multiply, layout = (subject_of(config, name) for name in ("multiply", "dropping_layout"))
    assert multiply.benches == ("tensordash_sim.verify.units.indexed_multiply",)
    assert {"tensordash_indexed_multiply", "tensordash_step_walk"} <= set(multiply.modules)
    assert layout.benches == ("tensordash_sim.verify.units.dropping_layout",)
    assert layout.options["side"] == "b"
    assert "tensordash_dropping_layout__b" in layout.modules
    assert "tensordash_step_index" in subject_of(config, "core").modules
    assert "dropping_layout" not in components_of(load_any_preset("core-wide"))


def test_full_campaigns_have_unique_names_and_16_pe_tiles():
    campaigns = full_campaigns()
    wires = [each for each in campaigns if each.kind == "wires"]
    assert sum(count for each in wires for _, count in each.parts) >= 200
    tiles = [getattr(each.config, "tile", each.config) for each in wires]
    assert all(each.rows * each.columns == 16 for each in tiles)
    names = [(each.name, each.kind) for each in campaigns]
    assert len(set(names)) == len(names)
