"""Results of mutants, and the report that counts them."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["MutantResult", "MutationReport"]

KILLED = ("bench", "proof")


@dataclass(frozen=True, kw_only=True)
class MutantResult:
    """The result of a mutant.

    Parameters
    ----------
    campaign, component, module : str
        Campaign, component and Verilog module of the mutant.
    number : int
        Number of the mutant in its component and campaign.
    kind : str
        Kind of the change.
    change : str
        Description of the change.
    line : str
        The changed line of emitted Verilog.
    outcome : str
        "bench" or "proof": killed by a bench or a proof; "equivalent": proven equivalent to the emitted Verilog;
        "survives".
    detail : str
        Failure of the bench, name of the proof, or kind of equivalence check.
    """

    campaign: str
    component: str
    module: str
    number: int
    kind: str
    change: str
    line: str
    outcome: str
    detail: str

    @property
    def finder(self) -> str:
        """The test or proof that killed the mutant."""
        return (
            f"{self.outcome} {self.component}: {self.detail.partition(':')[0]}"
            if self.outcome == "bench"
            else self.detail
        )


@dataclass(frozen=True, kw_only=True)
class MutationReport:
    """Results of all mutants of some campaigns.

    Parameters
    ----------
    seed : int
        Seed of mutants and benches.
    results : tuple of MutantResult
        One for each mutant.
    """

    seed: int
    results: tuple[MutantResult, ...]

    @property
    def survivors(self) -> list[MutantResult]:
        """Mutants that are neither killed nor proven equivalent."""
        return [each for each in self.results if each.outcome == "survives"]

    def counts(self) -> dict[str, dict[str, int]]:
        """Count outcomes by campaign and component, by kind of change, and in total."""
        groups = (lambda each: f"{each.campaign}: {each.component}", lambda each: each.kind, lambda each: "total")
        table: dict[str, dict[str, int]] = {}
        for group in groups:
            for each in self.results:
                table.setdefault(group(each), dict.fromkeys((*KILLED, "equivalent", "survives"), 0))[each.outcome] += 1
        return table

    def finders(self) -> dict[str, int]:
        """Count the mutants that each test and each proof killed, the largest count first."""
        return dict(Counter(each.finder for each in self.results if each.outcome in KILLED).most_common())

    def table(self) -> str:
        """Format the counts, the finders, and one line for each survivor."""
        counts = self.counts()
        width = max(map(len, counts))
        lines = [f"{'':{width}} mutants  bench  proof  equivalent  survive  caught"]
        for name, row in counts.items():
            caught = row["bench"] + row["proof"]
            different = caught + row["survives"]
            share = f"{caught / different:7.1%}" if different else "      -"
            lines.append(
                f"{name:{width}} {sum(row.values()):7} {row['bench']:6} {row['proof']:6} {row['equivalent']:11} "
                f"{row['survives']:8} {share}"
            )
        lines += ["", *(f"{count:7} {name}" for name, count in self.finders().items())]
        for each in self.survivors:
            where = f"{each.campaign}, {each.component} {each.number}, {each.module}"
            lines.append(f"survives: {where}: {each.change}: {each.line[:160]}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Convert the report to JSON types."""
        mutants = [asdict(each) for each in self.results]
        return {"seed": self.seed, "counts": self.counts(), "finders": self.finders(), "mutants": mutants}
