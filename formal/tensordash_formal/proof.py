"""Proof: the claims about a component, for which tiles or cores they are made, and what breaks each of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig

from .harness import Fault, Harness
from .solver import Answer, ProofError, Question, Solver

__all__ = ["Broken", "Build", "Proof", "Refutation", "Result"]

INDUCTION = "induction"


class Build(Protocol):
    """Makes the harness of a component of a tile or of a core, sound or broken."""

    def __call__(self, config: Any, fault: tuple[type[Block], Fault] | None = None) -> Harness:
        """The harness for a tile or a core."""
        ...


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A variant that a property must not hold for.

    Parameters
    ----------
    claim : str
        The property.
    title : str
        What is wrong with the variant.
    kind : type of Block
        The component that is broken.
    fault : Fault
        How.
    depth : int
        Cycles within which the property fails.
    config : TileConfig or CoreConfig
        What is broken; None for the one that `Proof.breaks` names.
    """

    claim: str
    title: str
    kind: type[Block]
    fault: Fault
    depth: int = 8
    config: TileConfig | CoreConfig | None = None


@dataclass(frozen=True, kw_only=True)
class Result:
    """A property of a tile or a core, proven or not.

    Parameters
    ----------
    name : str
        Proof and claim.
    bound : int or "induction"
        Cycles from reset that it is proven for; "induction": all.
    result : str
        "proven", "refuted" (a counterexample exists) or "unknown".
    cover : int or None
        First cycle in which the property says something; None if there is none.
    seconds : float
        Of the run, which all claims of a proof share.
    """

    name: str
    bound: int | str
    result: str
    cover: int | None
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Refutation:
    """A broken variant, and the cycle in which its property fails; None if it does not."""

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
        What it is about.
    build : Build
        Makes its harness.
    applies : callable
        Whether a tile, or a core, has the component.
    broken : tuple of Broken
        At least one for every claim.
    depth : int
        Cycles that the induction assumes, or with `bounded` those that are searched.
    bounded : bool
        Search counterexamples up to `depth` cycles instead of proving.
    engine : str
        Of the proof; covers and counterexamples are always searched with z3.
    cover_depth : int
        Cycles within which every claim says something.
    breaks : TileConfig or CoreConfig
        What broken variants are made of.
    quick : bool
        Answers come in seconds: mutants meet it before all of a bench.
    """

    name: str
    build: Build
    applies: Callable[[Any], bool]
    broken: tuple[Broken, ...]
    depth: int = 1
    bounded: bool = False
    engine: str = "smtbmc z3"
    cover_depth: int = 8
    breaks: TileConfig | CoreConfig = field(default_factory=TileConfig)
    quick: bool = False

    def prove(self, config: TileConfig | CoreConfig, solver: Solver) -> list[Result]:
        """Prove every claim for a tile or a core, and show that each says something."""
        harness = self.build(config)
        if not harness.claims:
            raise ProofError(f"{self.name} claims nothing of {config.digest}")
        answers = [solver.solve(each) for each in self.questions(harness)]
        cuts = [solver.solve(self.question(harness, [each], "prove", 1)) for each in harness.cuts]
        covers = solver.solve(self.question(harness, harness.covers, "cover", self.cover_depth))
        result = "proven" if all(each.status == "pass" for each in (*answers, *cuts)) else "unknown"
        failed = {name for answer in answers for name in answer.failed}
        return [
            Result(
                name=f"{self.name}.{claim}",
                bound=self.depth if self.bounded else INDUCTION,
                result="refuted" if any(f"claim_{cell}" in failed for cell in cells) else result,
                cover=_first(covers, cells),
                seconds=sum(each.seconds for each in (*answers, *cuts)),
            )
            for claim, cells in harness.claims.items()
        ]

    def refute(self, broken: Broken, solver: Solver, config: TileConfig | CoreConfig | None = None) -> Refutation:
        """Show that a claim does not hold for a broken variant."""
        harness = self.build(config or broken.config or self.breaks, fault=(broken.kind, broken.fault))
        if broken.claim not in harness.claims:
            raise ProofError(f"{self.name} has no claim {broken.claim!r}: {', '.join(harness.claims)}")
        wanted = [f"claim_{cell}" for cell in harness.claims[broken.claim]]
        question = self.question(harness, wanted, "bmc", broken.depth)
        answer = solver.solve(question)
        return Refutation(
            name=f"{self.name}.{broken.claim}",
            title=broken.title,
            cycle=min(answer.failed.values(), default=None),
            seconds=answer.seconds,
        )

    def questions(self, harness: Harness) -> list[Question]:
        """What a solver is asked to prove all claims and lemmas: with all pieces of them, it is proven."""
        mode, pieces = "bmc" if self.bounded else "prove", harness.questions()
        return [self.question(harness, each, mode, self.depth, self.engine, before=len(pieces) > 1) for each in pieces]

    def question(
        self,
        harness: Harness,
        keep: list[str],
        mode: str,
        depth: int,
        engine: str = "smtbmc z3",
        *,
        before: bool = False,
    ) -> Question:
        """What a solver is asked about some of a harness' statements; with `before`, given all in the cycle before."""
        script = tuple(harness.script(keep, before))
        return Question(mode=mode, engine=engine, depth=depth, script=script, files=harness.files)


def _first(covers: Answer, cells: list[str]) -> int | None:
    """The cycle in which the last of a claim's covers is reached; None if one is not."""
    cycles = [covers.reached.get(f"cover_{cell}") for cell in cells]
    return None if None in cycles else max(cycle for cycle in cycles if cycle is not None)
