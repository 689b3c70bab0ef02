"""Test that docs/proofs.md and docs/verification.md list the claims and results of the proofs."""

from importlib import import_module
from types import ModuleType

import pytest

from tensordash_formal.suite import full_suite

BENCH = "proof_page"
HOW = "run python bench/proof_page.py"


def test_pages_match_the_proofs(bench: ModuleType) -> None:
    results = import_module("common").load_figures(bench.RESULTS)
    assert bench.PAGE.read_text(encoding="utf-8") == bench.rendered("proofs", results) + "\n", HOW
    summary = bench.SUMMARY_PAGE.read_text(encoding="utf-8")
    assert summary == bench.fill_page(summary, results), HOW


def test_counts_of_the_papers_tile(bench: ModuleType) -> None:
    stored = import_module("common").load_figures(bench.RESULTS)
    counted = bench.counted(each for each in full_suite().proofs if each[1] == "paper")
    assert stored["configs"]["paper"] == counted["configs"]["paper"], HOW


@pytest.mark.slow
def test_counts_of_every_configuration(bench: ModuleType) -> None:
    assert import_module("common").load_figures(bench.RESULTS) == bench.measured(), HOW
