"""Proofs: the claims about a component, the configurations that they apply to, and their broken variants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig

from .harness import Fault, Harness
from .solver import Answer, ProofError, Query, Solver

__all__ = ["BrokenVariant", "Build", "Proof", "Refutation", "Result", "make_variants"]

INDUCTION = "induction"


class Build(Protocol):
    """A function that builds the harness of a component, sound or broken."""

    def __call__(self, config: Any, fault: tuple[type[Block], Fault] | None = None) -> Harness:
        """Build the harness for a tile or a core."""
        ...


@dataclass(frozen=True, kw_only=True)
class BrokenVariant:
    """A faulty variant of a component, for which a property must fail.

    Parameters
    ----------
    claim : str
        The property.
    title : str
        What is wrong with the variant.
    kind : type of Block
        The faulty component.
    fault : Fault
        Breaks the component at its ports.
    depth : int
        Cycles within which the property fails.
    skip : int, optional
        First cycle in which to search, if no earlier one has a counterexample that a solver finds soon.
    config : TileConfig or CoreConfig
        Configuration of the variant; None for `Proof.broken_config`.
    """

    claim: str
    title: str
    kind: type[Block]
    fault: Fault
    depth: int = 8
    skip: int | None = None
    config: TileConfig | CoreConfig | None = None


def make_variants(
    kind: type[Block], faults: Mapping[str, Mapping[str, Fault]], **options: Any
) -> tuple[BrokenVariant, ...]:
    """Return variants of a component from a table: by claim, the faults that break it by title.

    `options` are further parameters of each variant.
    """
    return tuple(
        BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, **options)
        for claim, broken in faults.items()
        for title, fault in broken.items()
    )


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of a property for a tile or a core.

    Parameters
    ----------
    name : str
        Proof and claim, as "proof.claim".
    bound : int or "induction"
        Cycles from reset for which it is proven; "induction": all cycles.
    result : str
        "proven", "refuted" (the solver found a counterexample) or "unknown".
    cover : int or None
        First cycle in which the property's condition is true; None if no such cycle was found.
    seconds : float
        Run time of the proof, shared by all of its claims.
    """

    name: str
    bound: int | str
    result: str
    cover: int | None
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Refutation:
    """The outcome of a broken variant. `cycle` is the cycle in which its property fails, or None if it holds."""

    name: str
    title: str
    cycle: int | None
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Claims about a component.

    Parameters
    ----------
    name : str
        Name of the proof, usually the component's.
    build : Build
        Builds the harness.
    applies : callable
        Returns whether a configuration has the component.
    broken_variants : tuple of BrokenVariant
        At least one variant for every claim.
    depth : int
        Cycles that the induction assumes.
    cover_depth : int
        Cycles within which every cover is reached.
    broken_config : TileConfig or CoreConfig
        Default configuration of the broken variants.
    is_quick : bool
        The proof takes seconds. Mutation testing runs it before the full benches.
    """

    name: str
    build: Build
    applies: Callable[[Any], bool]
    broken_variants: tuple[BrokenVariant, ...]
    depth: int = 1
    cover_depth: int = 8
    broken_config: TileConfig | CoreConfig = field(default_factory=TileConfig)
    is_quick: bool = False

    def prove(self, config: TileConfig | CoreConfig, solver: Solver) -> list[Result]:
        """Prove every claim for a tile or a core, and search for the cover of each."""
        harness = self.build(config)
        if not harness.claims:
            raise ProofError(f"{self.name} claims nothing of {config.digest}")
        answers = [solver.solve(each) for each in self.queries(harness)]
        cuts = [solver.solve(self.query(harness, [each], "prove", 1)) for each in harness.cuts]
        covers = solver.solve(self.query(harness, harness.covers, "cover", self.cover_depth))
        result = "proven" if all(each.status == "pass" for each in (*answers, *cuts)) else "unknown"
        failed = {name for answer in answers for name in answer.failed}
        return [
            Result(
                name=f"{self.name}.{claim}",
                bound=INDUCTION,
                result="refuted" if any(f"claim_{cell}" in failed for cell in cells) else result,
                cover=_last_cover(covers, cells),
                seconds=sum(each.seconds for each in (*answers, *cuts)),
            )
            for claim, cells in harness.claims.items()
        ]

    def refute(
        self, variant: BrokenVariant, solver: Solver, config: TileConfig | CoreConfig | None = None
    ) -> Refutation:
        """Search for a counterexample to a claim of a broken variant."""
        harness = self.build(config or variant.config or self.broken_config, fault=(variant.kind, variant.fault))
        if variant.claim not in harness.claims:
            raise ProofError(f"{self.name} has no claim {variant.claim!r}: {', '.join(harness.claims)}")
        wanted = [f"claim_{cell}" for cell in harness.claims[variant.claim]]
        query = replace(self.query(harness, wanted, "bmc", variant.depth), skip=variant.skip)
        answer = solver.solve(query)
        return Refutation(
            name=f"{self.name}.{variant.claim}",
            title=variant.title,
            cycle=min(answer.failed.values(), default=None),
            seconds=answer.seconds,
        )

    def queries(self, harness: Harness) -> list[Query]:
        """Build the queries that together prove all claims and lemmas."""
        groups = harness.assertion_groups()
        return [self.query(harness, each, "prove", self.depth, assume_past=len(groups) > 1) for each in groups]

    def query(
        self,
        harness: Harness,
        keep: list[str],
        mode: str,
        depth: int,
        *,
        assume_past: bool = False,
    ) -> Query:
        """Build a query about the statements in `keep`.

        With `assume_past`, the query assumes all claims and lemmas in the previous cycle.
        """
        script = tuple(harness.script(keep, assume_past))
        return Query(mode=mode, depth=depth, script=script, files=harness.files)


def _last_cover(covers: Answer, cells: list[str]) -> int | None:
    """Return the cycle in which the last of a claim's covers is reached, or None if one is unreached."""
    cycles = [covers.reached.get(f"cover_{cell}") for cell in cells]
    return None if None in cycles else max(cycle for cycle in cycles if cycle is not None)
