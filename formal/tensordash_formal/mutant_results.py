"""What became of mutants, one by one and counted."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Fate", "MutationReport"]

CAUGHT = ("bench", "proof")


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What became of a mutant.

    Parameters
    ----------
    campaign, component, module : str
        Where it is.
    number : int
        Which of its component's in its campaign.
    kind : str
        What kind of change it is.
    change : str
        What is changed.
    line : str
        The line of emitted Verilog.
    fate : str
        "bench" or "proof": found by it; "equivalent": proven to do what was emitted does; "survives".
    by : str
        What the bench said, or the name of the proof.
    """

    campaign: str
    component: str
    module: str
    number: int
    kind: str
    change: str
    line: str
    fate: str
    by: str

    @property
    def finder(self) -> str:
        """The test or the proof that found it; empty if nothing did."""
        return f"{self.fate} {self.component}: {self.by.partition(':')[0]}" if self.fate == "bench" else self.by


@dataclass(frozen=True, kw_only=True)
class MutationReport:
    """All mutants of some campaigns.

    Parameters
    ----------
    seed : int
        Of mutants and benches.
    fates : tuple of Fate
        What became of each.
    """

    seed: int
    fates: tuple[Fate, ...]

    @property
    def survivors(self) -> list[Fate]:
        """Those that nothing found and that are not proven equivalent."""
        return [each for each in self.fates if each.fate == "survives"]

    def counts(self) -> dict[str, dict[str, int]]:
        """How many there are of each fate: of each campaign's components, of each kind of change, in all."""
        groups = (lambda each: f"{each.campaign}: {each.component}", lambda each: each.kind, lambda each: "total")
        table: dict[str, dict[str, int]] = {}
        for group in groups:
            for each in self.fates:
                table.setdefault(group(each), dict.fromkeys((*CAUGHT, "equivalent", "survives"), 0))[each.fate] += 1
        return table

    def finders(self) -> dict[str, int]:
        """How many mutants each test and each proof has found, most first."""
        return dict(Counter(each.finder for each in self.fates if each.fate in CAUGHT).most_common())

    def table(self) -> str:
        """The counts, what found how many, and a line for each survivor."""
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
        """Plain values."""
        mutants = [asdict(each) for each in self.fates]
        return {"seed": self.seed, "counts": self.counts(), "finders": self.finders(), "mutants": mutants}
