"""Test that handwritten faults match the sources, and that the campaign classifies them."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from click.testing import CliRunner

from tensordash_cli import mutate
from tensordash_formal import fault_campaign, fault_check
from tensordash_formal.fault_campaign import CheckoutError, checkout_root, run_faults, sources_digest
from tensordash_formal.fault_check import _outcome_of_command, run_check
from tensordash_formal.fault_list import (
    Fault,
    FaultFileError,
    faults_table,
    load_faults,
    sample_faults,
    select_faults,
    with_table,
)
from tensordash_storage.jobs import Runner

ONE_PROCESS = Runner(workers=1)
FAULTS = load_faults()
DOUBLE = Fault(
    name="double",
    component="tiny",
    file="hdl/tiny.py",
    old="2 * x",
    new="3 * x",
    why="Three times.",
    found_by=("tests/test_tiny.py::test_double",),
)


@pytest.fixture
def root(tmp_path):
    """Return a repository with one module, two passing tests and a failing test."""
    for name in fault_campaign.SOURCES:
        (tmp_path / "root" / name).mkdir(parents=True)
    (tmp_path / "root/hdl/tiny.py").write_text("def double(x):\n    return 2 * x\n\n\ndef half(x):\n    return x / 2\n")
    (tmp_path / "root/tests/test_tiny.py").write_text(
        "import tiny\n\n\n"
        "def test_double():\n    assert tiny.double(3) == 6\n\n\n"
        "def test_zero():\n    assert tiny.double(0) == 0\n\n\n"
        "def test_wrong():\n    assert tiny.double(3) == 7\n"
    )
    return tmp_path / "root"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_text_to_replace_occurs_once(fault):
    assert (checkout_root() / fault.file).read_text(encoding="utf-8").count(fault.old) == 1
    for check in fault.found_by:
        if check.partition(" ")[0] != "tensordash":
            text = (checkout_root() / re.split("::| ", check)[0]).read_text(encoding="utf-8")
            names = re.findall(r"::(\w+)", check)
            assert all(re.search(rf"(def|class) {name}\b", text) for name in names), check


def test_faults_use_names_that_exist(tmp_path):
    for fault in FAULTS:
        if fault.file.endswith(".py"):
            changed = (checkout_root() / fault.file).read_text(encoding="utf-8").replace(fault.old, fault.new)
            (tmp_path / f"{fault.name}.py").write_text(changed, encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "--output-format", "concise"]
    result = subprocess.run([*ruff, str(tmp_path)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_results(root, tmp_path):
    faults = {
        "killed": DOUBLE,
        "survived": replace(DOUBLE, name="missed", found_by=("tests/test_tiny.py::test_zero",)),
        "stale": replace(DOUBLE, name="gone", old="4 * x"),
        "error": replace(DOUBLE, name="no-import", old="def half", new="import nothing_of_this_name\n\n\ndef half"),
        "error ": replace(DOUBLE, name="always", found_by=("tests/test_tiny.py::test_wrong",)),
    }
    report = run_faults(list(faults.values()), tmp_path / "answers", root=root)
    assert [each.result for each in report.results] == [result.strip() for result in faults]
    assert len(report.failures) == 4
    assert "survived: missed: tests/test_tiny.py::test_zero passes with the fault" in report.table()
    assert "always: tests/test_tiny.py::test_wrong does not pass without a fault" in report.table()
    assert (root / "hdl/tiny.py").read_text().count("2 * x") == 1
    document = json.loads(json.dumps(report.to_json()))
    assert document["passed"] is False
    assert document["faults"][0]["reason"].startswith("test_double: ")


def test_answers_are_reused_for_the_same_sources_only(root, tmp_path, monkeypatch):
    run_faults([DOUBLE], tmp_path / "answers", root=root, runner=ONE_PROCESS)
    digest = sources_digest(root)
    monkeypatch.setattr(fault_campaign, "run_check", lambda *_: pytest.fail("an answered check ran"))
    assert not run_faults([DOUBLE], tmp_path / "answers", root=root, runner=ONE_PROCESS).failures
    (root / "hdl/tiny.py").write_text("def double(x):\n    return 2 * x\n")
    assert sources_digest(root) != digest
    with pytest.raises(pytest.fail.Exception):
        run_faults([DOUBLE], tmp_path / "answers", root=root, runner=ONE_PROCESS)


def test_a_check_that_takes_too_long_is_an_error(root, tmp_path, monkeypatch):
    (root / "tests/test_tiny.py").write_text("import time\n\n\ndef test_long():\n    time.sleep(60)\n")
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(fault_check, "CHECK_SECONDS", 1)
    outcome = run_check("tests/test_tiny.py", root, tmp_path, tmp_path / "cache")
    assert (outcome.status, outcome.reason) == ("error", "stopped after 1 s")


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (0, "passed\n", "passed"),
        (1, "FAILED\ntensordash: Verilog and golden model differ in: pe (seed 0)\n", "failed"),
        (1, "Traceback (most recent call last):\nKeyError: 3\n", "error"),
        (2, "tensordash: rows must be an integer\n", "error"),
        (-9, "", "error"),
    ],
)
def test_only_status_1_with_a_message_is_a_failed_command(status, text, expected):
    assert _outcome_of_command(status, text).status == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[fault", "a.toml: "),
        ("[[mutant]]", "only \\[\\[fault\\]\\] is allowed, not 'mutant'"),
        ('[[fault]]\nname = "x"', "fault 1 \\(x\\): must have the fields name, component"),
        (None, "fault names must be unique, 'x' is not"),
        ("same", "new must differ from old"),
        ("make test", "found_by must have pytest node ids or tensordash commands, not 'make test'"),
    ],
)
def test_wrong_entries(text, message, tmp_path):
    fields = {"name": "x", "component": "c", "file": "f", "old": "a", "new": "b", "why": "w", "found_by": ["t.py"]}
    if text is None or not text.startswith("["):
        fields |= {"new": "a"} if text == "same" else {"found_by": [text]} if text else {}
        entry = "[[fault]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items())
        text = entry * 2 if text is None else entry
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(FaultFileError, match=message):
        load_faults(tmp_path)


def test_faults_are_selected_and_sampled():
    others = [replace(DOUBLE, name=f"fault-{k}", component="other") for k in range(9)]
    assert select_faults([DOUBLE, *others]) == (DOUBLE, *others)
    assert select_faults([DOUBLE, *others], ["tiny"], ["fault-3"]) == (DOUBLE, others[3])
    with pytest.raises(ValueError, match="--component must be one of other, tiny, not 'x'"):
        select_faults([DOUBLE, *others], ["x"])
    many = [replace(DOUBLE, name=f"fault-{k}") for k in range(200)]
    closest = r"--name must be one of the 200 names that --list --json prints \(closest: fault-77, .*'falt-77'"
    with pytest.raises(ValueError, match=closest):
        select_faults(many, names=["falt-77"])
    drawn = sample_faults(others, 3, seed=1)
    assert len(drawn) == 3
    assert drawn == sample_faults(others, 3, seed=1) != sample_faults(others, 3, seed=2)
    assert sample_faults(others, 20, seed=1) == tuple(others)
    assert faults_table([DOUBLE]).splitlines()[-1] == "| tiny | Three times. | `tests/test_tiny.py::test_double` |"


def test_faults_need_a_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(fault_campaign, "__file__", str(tmp_path / "site-packages/tensordash_formal/fault_campaign.py"))
    with pytest.raises(CheckoutError, match="^--by-hand needs a checkout of the repository"):
        checkout_root()


def test_the_page_has_all_faults():
    page = (checkout_root() / "docs" / "faults.md").read_text(encoding="utf-8")
    assert page == with_table(page, FAULTS), "run tensordash mutate --by-hand --list --page docs/faults.md"
    assert page != with_table(page, FAULTS[1:])
    with pytest.raises(FaultFileError, match="must have the lines <!-- faults --> and <!-- /faults --> once"):
        with_table("", FAULTS)


def test_command(tmp_path):
    """A cheap fault of the real sources is found; `--list` prints the table."""
    chosen = "wire-capacitance-of-half-perimeter"
    result = CliRunner().invoke(mutate.command, ["--by-hand", "--name", chosen, "-o", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    assert [each["name"] for each in json.loads(result.stdout)["faults"]] == [chosen]
    listed = CliRunner().invoke(mutate.command, ["--by-hand", "--list"])
    assert listed.stdout.strip() == faults_table(FAULTS)
