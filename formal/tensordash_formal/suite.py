"""Suites of proofs: run them for many configurations in parallel, and report the results."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tensordash import TileConfig, load_preset
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset, preset_names
from tensordash_storage.jobs import LOCAL, Job, Runner

from .proof import BrokenVariant, Proof, Refutation, Result
from .proofs import CORE_PROOFS, PROOFS
from .solver import Solver

__all__ = ["CORNER_CONFIGS", "Report", "Suite", "full_suite", "suite_of"]

CORNER_CONFIGS = {
    "one-pe": TileConfig(rows=1, columns=1),
    "odd-shape": TileConfig(
        rows=3, columns=2, lanes=3, depth=3, connectivity=((0, 0), (1, 1), (2, 0), (1, -1)), pipeline=1
    ),
    "two-lanes": TileConfig(rows=2, columns=2, lanes=2, depth=2, connectivity=((0, 0), (1, 0), (1, 1)), pipeline=3),
    "deep": TileConfig(rows=2, columns=1, depth=6, connectivity=((0, 0), (5, 2), (1, 0), (2, -1), (4, 0), (3, 1))),
    "ring": TileConfig(rows=3, columns=2, depth=3, connectivity=((0, 0), (2, -1), (1, -1)), staging="ring", pipeline=1),
    "ring-both-sides": TileConfig(
        rows=2,
        columns=2,
        lanes=3,
        depth=5,
        connectivity=((0, 0), (1, 0), (1, 1), (3, 1), (2, 0), (2, 1), (4, 1), (3, 0), (4, 0)),
        sparsity="both",
        staging="ring",
    ),
    "both-sides": TileConfig(rows=2, columns=2, sparsity="both"),
    "dense-one-stage": TileConfig(rows=2, columns=3, sparsity="none", pipeline=1),
    "with-c": TileConfig(rows=4, columns=2, out_rows=2, initial=True),
    "with-c-fused": TileConfig(rows=3, columns=1, format="bf16", accumulator="ampere", initial=True),
    "tf32-with-c": TileConfig(rows=3, columns=1, format="tf32", accumulator="hopper-fp8", initial=True),
    "bf16-binned": TileConfig(rows=1, columns=1, format="bf16", accumulator={"bins": 3}),
    "bf16-binned-narrow": TileConfig(rows=1, columns=1, format="bf16", accumulator={"bins": 3}, headroom_bits=2),
    "fp8-e4m3": TileConfig(rows=2, columns=2, format="fp8_e4m3"),
    "fp8-e5m2": TileConfig(rows=2, columns=2, format="fp8_e5m2"),
    "fp8-mixed": TileConfig.from_mapping(
        {"tile": {"rows": 2, "columns": 2, "format": {"a": "fp8_e4m3", "b": "fp8_e5m2"}}}
    ),
    "with-scales": TileConfig(
        rows=2,
        columns=2,
        lanes=2,
        depth=2,
        connectivity=((0, 0), (1, 0), (1, 1)),
        format="fp4_e2m1",
        scale="e4m3",
    ),
    "int8": TileConfig(rows=4, columns=1, format="int8", out_rows=2),
    "int8-with-c": TileConfig(rows=2, columns=2, format="int8", initial=True, headroom_bits=3),
    "buffered": TileConfig(
        rows=2,
        columns=1,
        lanes=2,
        depth=2,
        connectivity=((0, 0), (1, 0), (1, 1)),
        registered_ready=True,
        counters="snapshot",
    ),
}
"""Small tiles, by name, that cover parameter values that no preset has."""


Config = TileConfig | CoreConfig


@dataclass(frozen=True)
class Report:
    """The results of a suite.

    Parameters
    ----------
    properties : tuple of (str, Result)
        Name of the tile or core, and the property's result.
    refutations : tuple of Refutation
        Results of the broken variants.
    without_variant : tuple of str
        Properties without a broken variant.
    """

    properties: tuple[tuple[str, Result], ...]
    refutations: tuple[Refutation, ...]
    without_variant: tuple[str, ...]

    def failures(self) -> list[str]:
        """List every failure, one line each. A report without properties is a failure too."""
        lines = [
            f"{tile}: {result.name} is {result.result}" for tile, result in self.properties if result.result != "proven"
        ]
        lines += [
            f"{tile}: {result.name} has an unreached cover" for tile, result in self.properties if result.cover is None
        ]
        lines += [f"{each.name} holds though {each.title}" for each in self.refutations if each.cycle is None]
        lines += [f"{name} has no broken variant" for name in self.without_variant]
        return lines if self.properties else ["nothing was proven"]

    def to_json(self) -> dict[str, Any]:
        """Convert the report to JSON types."""
        return {
            "passed": not self.failures(),
            "properties": [
                {
                    "name": result.name,
                    "preset": tile,
                    "bound": result.bound,
                    "result": result.result,
                    "seconds": round(result.seconds, 1),
                }
                for tile, result in self.properties
            ],
            "covers": [
                {"name": result.name, "preset": tile, "cycle": result.cover} for tile, result in self.properties
            ],
            "broken": [
                {**asdict(each), "refuted": each.cycle is not None, "seconds": round(each.seconds, 1)}
                for each in self.refutations
            ],
        }


@dataclass(frozen=True)
class Suite:
    """Proofs to run, and broken variants to refute.

    Parameters
    ----------
    proofs : tuple of (Proof, str, TileConfig or CoreConfig)
        A proof, the name of the tile or core, and its configuration.
    broken_variants : tuple of (Proof, BrokenVariant)
        Variants to refute.
    """

    proofs: tuple[tuple[Proof, str, Config], ...]
    broken_variants: tuple[tuple[Proof, BrokenVariant], ...] = ()

    def run(self, folder: Path, runner: Runner = LOCAL) -> Report:
        """Run the proofs.

        Parameters
        ----------
        folder : Path
            Cache of queries and their answers. A query with a cached answer does not run again. Its key is
            `Query.digest`, which covers its files, script and tools.
        runner : Runner
            Where proofs run.

        Raises
        ------
        ProofError
            If a solver fails.
        JobError
            As in `Runner.run`.
        """
        solver = Solver(folder.resolve())
        names = [f"{proof.name} of {name}" for proof, name, _ in self.proofs]
        jobs = [
            Job(key, proof.prove, (config, solver)) for key, (proof, _, config) in zip(names, self.proofs, strict=True)
        ]
        variants = [Job(str(k), proof.refute, (each, solver)) for k, (proof, each) in enumerate(self.broken_variants)]
        answers = dict(runner.run([*jobs, *variants], title="proofs", describe=_describe))
        properties = tuple(
            (name, result) for key, (_, name, _) in zip(names, self.proofs, strict=True) for result in answers[key]
        )
        known = {f"{proof.name}.{variant.claim}" for proof, _, _ in self.proofs for variant in proof.broken_variants}
        return Report(
            properties=properties,
            refutations=tuple(answers[job.key] for job in variants),
            without_variant=tuple(sorted({result.name for _, result in properties} - known)),
        )


def _describe(job: Job, answer: list[Result] | Refutation) -> str:
    if isinstance(answer, Refutation):
        outcome = "holds" if answer.cycle is None else f"refuted in cycle {answer.cycle}"
        return f"{answer.name} if {answer.title}: {outcome}, {answer.seconds:.1f} s"
    outcomes = sorted({result.result for result in answer})
    return f"{job.key}: {len(answer)} properties, {', '.join(outcomes)}, {answer[0].seconds:.1f} s"


def _applicable(configs: Iterable[tuple[str, Config]]) -> Iterator[tuple[Proof, str, Config]]:
    for name, config in configs:
        for proof in CORE_PROOFS if isinstance(config, CoreConfig) else PROOFS:
            if proof.applies(config):
                yield proof, name, config


def suite_of(config: TileConfig | CoreConfig, name: str) -> Suite:
    """Build the suite of all properties of one tile or core.

    Parameters
    ----------
    config : TileConfig or CoreConfig
        The tile or the core. A core's suite excludes the core's tile, which has its own suite.
    name : str
        Name in the report.
    """
    return Suite(tuple(_applicable([(name, config)])))


def full_suite() -> Suite:
    """Build the suite of all properties of all presets and of `CORNER_CONFIGS`, and of all broken variants."""
    tiles = {name: load_preset(name) for name in preset_names()} | CORNER_CONFIGS
    cores = {name: load_any_preset(name) for name in preset_names("core")}
    variants = tuple((proof, variant) for proof in (*PROOFS, *CORE_PROOFS) for variant in proof.broken_variants)
    return Suite(tuple(_applicable([*tiles.items(), *cores.items()])), variants)
