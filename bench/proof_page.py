"""Count the properties that `tensordash prove --all` proves, and write them into the pages.

    python bench/proof_page.py            # build every proof without solving it: 2 minutes; docs/proofs.json, pages
    python bench/proof_page.py --write    # build nothing: write docs/proofs.md and docs/verification.md

A proof's text on docs/proofs.md is the docstring of its module.
"""

import inspect
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from common import DOCS, argument_parser, load_figures, render, replace_between, store_figures
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import preset_names
from tensordash_formal.proof import Proof
from tensordash_formal.proofs import CORE_PROOFS, PROOFS
from tensordash_formal.suite import Config, full_suite
from tensordash_storage.files import atomic_write

RESULTS = DOCS / "proofs.json"
PAGE = DOCS / "proofs.md"
SUMMARY_PAGE = DOCS / "verification.md"
PACKAGE = "tensordash_formal.proofs"


def counted(proofs: Iterable[tuple[Proof, str, Config]]) -> dict[str, Any]:
    """Build proofs, and return the names of properties by proof and their numbers by configuration."""
    properties: dict[str, list[str]] = {}
    configs: dict[str, Any] = {}
    for proof, name, config in proofs:
        claims = proof.build(config).claims
        known = properties.setdefault(proof.name, [])
        known += [claim for claim in claims if claim not in known]
        kind = "core" if isinstance(config, CoreConfig) else "tile"
        configs.setdefault(name, {"kind": kind, "properties": {}})["properties"][proof.name] = len(claims)
    return {"properties": properties, "configs": configs}


def measured() -> dict[str, Any]:
    """Return the contents of docs/proofs.json."""
    variants = {proof.name: len(proof.broken_variants) for proof in (*PROOFS, *CORE_PROOFS)}
    return {**counted(full_suite().proofs), "broken_variants": variants}


def rendered(template: str, results: Mapping[str, Any]) -> str:
    """Return the text of a template."""
    modules = {proof.name: import_module(f"{PACKAGE}.{proof.name}") for proof in (*PROOFS, *CORE_PROOFS)}
    texts = {name: inspect.getdoc(module) for name, module in modules.items()}
    groups = {"tile": [each.name for each in PROOFS], "core": [each.name for each in CORE_PROOFS]}
    totals = {name: sum(config["properties"].values()) for name, config in results["configs"].items()}
    presets = [*preset_names(), *preset_names("core")]
    corner = [total for name, total in totals.items() if name not in presets]
    values = {"texts": texts, "groups": groups, "totals": totals, "presets": presets, "corner": corner}
    return render(template, results=results, **values)


def fill_page(text: str, results: Mapping[str, Any]) -> str:
    """Return the page docs/verification.md with its table."""
    return replace_between(text, "<!-- proofs -->", "<!-- /proofs -->", rendered("proof_counts", results))


def main() -> None:
    """Run the command."""
    parser = argument_parser(__doc__)
    parser.add_argument("--write", action="store_true", help="count nothing, write the pages")
    if not parser.parse_args().write:
        store_figures(RESULTS, measured())
    results = load_figures(RESULTS)
    atomic_write(PAGE, rendered("proofs", results) + "\n")
    atomic_write(SUMMARY_PAGE, fill_page(SUMMARY_PAGE.read_text(encoding="utf-8"), results))


if __name__ == "__main__":
    main()
