"""Suite: which proofs are made for which tiles, several at a time, and what came of them."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tensordash import TileConfig, load_preset
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset, preset_names

from .proof import Broken, Proof, Refutation, Result
from .proofs import CORE_PROOFS, PROOFS
from .solver import Solver

__all__ = ["ODD_TILES", "Report", "Suite", "full_suite", "suite_of"]

ODD_TILES = {
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
"""Tiles that no preset is like, by name."""


Config = TileConfig | CoreConfig


@dataclass(frozen=True)
class Report:
    """What a suite found.

    Parameters
    ----------
    properties : tuple of (str, Result)
        With the name of the tile or core.
    broken : tuple of Refutation
        Broken variants.
    unbroken : tuple of str
        Properties that no broken variant is known of.
    """

    properties: tuple[tuple[str, Result], ...]
    broken: tuple[Refutation, ...]
    unbroken: tuple[str, ...]

    def failures(self) -> list[str]:
        """A line for everything that is not as it must be; a report without a proven property is a failure too."""
        lines = [
            f"{tile}: {result.name} is {result.result}" for tile, result in self.properties if result.result != "proven"
        ]
        lines += [f"{tile}: {result.name} says nothing" for tile, result in self.properties if result.cover is None]
        lines += [f"{each.name} holds though {each.title}" for each in self.broken if each.cycle is None]
        lines += [f"{name} has no broken variant" for name in self.unbroken]
        return lines if self.properties else ["nothing was proven"]

    def to_json(self) -> dict[str, Any]:
        """The report as JSON types."""
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
                for each in self.broken
            ],
        }


@dataclass(frozen=True)
class Suite:
    """Proofs to make.

    Parameters
    ----------
    proofs : tuple of (Proof, str, TileConfig or CoreConfig)
        Each for a tile or a core, with its name.
    broken : tuple of (Proof, Broken)
        Variants to refute.
    """

    proofs: tuple[tuple[Proof, str, Config], ...]
    broken: tuple[tuple[Proof, Broken], ...] = ()

    def run(
        self, folder: Path, *, jobs: int | None = None, progress: Callable[[str], None] = lambda line: None
    ) -> Report:
        """Make the proofs.

        Parameters
        ----------
        folder : Path
            Where questions and answers lie; what is answered there is not asked again.
        jobs : int, optional
            Solvers at a time; as many as there are cores.
        progress : callable
            Is called with a line for each proof that is done.

        Raises
        ------
        ProofError
            If a solver fails.
        """
        solver = Solver(folder)
        with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
            try:
                proven = [pool.submit(self._prove, each, solver, progress) for each in self.proofs]
                refuted = [pool.submit(self._refute, each, solver, progress) for each in self.broken]
                _wait([*proven, *refuted])
            except BaseException:
                solver.stop()
                pool.shutdown(cancel_futures=True)
                raise
        properties = tuple(result for future in proven for result in future.result())
        known = {f"{proof.name}.{broken.claim}" for proof, _, _ in self.proofs for broken in proof.broken}
        return Report(
            properties=properties,
            broken=tuple(future.result() for future in refuted),
            unbroken=tuple(sorted({result.name for _, result in properties} - known)),
        )

    @staticmethod
    def _prove(each: tuple[Proof, str, Config], solver: Solver, progress: Any) -> list[tuple[str, Result]]:
        proof, name, config = each
        results = proof.prove(config, solver)
        said = sorted({result.result for result in results})
        progress(f"{proof.name} of {name}: {len(results)} properties, {', '.join(said)}, {results[0].seconds:.1f} s")
        return [(name, result) for result in results]

    @staticmethod
    def _refute(each: tuple[Proof, Broken], solver: Solver, progress: Any) -> Refutation:
        proof, broken = each
        refutation = proof.refute(broken, solver)
        said = "holds" if refutation.cycle is None else f"refuted in cycle {refutation.cycle}"
        progress(f"{refutation.name} if {broken.title}: {said}, {refutation.seconds:.1f} s")
        return refutation


def _wait(futures: Iterable[Future]) -> None:
    done, _ = wait(futures, return_when=FIRST_EXCEPTION)
    for future in done:
        future.result()


def _applicable(configs: Iterable[tuple[str, Config]]) -> Iterator[tuple[Proof, str, Config]]:
    for name, config in configs:
        for proof in CORE_PROOFS if isinstance(config, CoreConfig) else PROOFS:
            if proof.applies(config):
                yield proof, name, config


def suite_of(config: TileConfig | CoreConfig, name: str) -> Suite:
    """Every property of one tile or core.

    Parameters
    ----------
    config : TileConfig or CoreConfig
        The tile, or the core, without its tile: that is a suite of its own.
    name : str
        What the report calls it.
    """
    return Suite(tuple(_applicable([(name, config)])))


def full_suite() -> Suite:
    """Every property of every preset and of `ODD_TILES`, and every broken variant."""
    tiles = {name: load_preset(name) for name in preset_names()} | ODD_TILES
    cores = {name: load_any_preset(name) for name in preset_names("core")}
    broken = tuple((proof, broken) for proof in (*PROOFS, *CORE_PROOFS) for broken in proof.broken)
    return Suite(tuple(_applicable([*tiles.items(), *cores.items()])), broken)
