"""Losses of networks that train in bf16 on a core, next to PyTorch's autocast, for several seeds.

    python bench/autocast_losses.py [--models digits gpt lstm] [--steps 100] [--seeds 3] [--write]

Losses are means over all steps. The emulator computes the products and counts no cycles. With --write the table goes
into docs/training-results.md.
"""

from collections.abc import Iterator
from statistics import mean

from common import DOCS, argument_parser, measured_at, replace_between
from tensordash_runtime import Device
from tensordash_runtime.tasks import TASKS, load_task
from tensordash_runtime.training import Trainer
from tensordash_storage.files import atomic_write

PRESET = "core-bf16"
PAGE = DOCS / "training-results.md"


def rows(models: list[str], seeds: int, steps: int) -> Iterator[str]:
    """Yield the lines of the table, and the number of missed products."""
    yield "| network | seed | loss | PyTorch, bf16 | difference |"
    yield "|---|---|---|---|---|"
    missed = 0
    for name in models:
        for seed in range(seeds):
            with Device(PRESET) as device:
                trainer = Trainer(load_task(name, seed), device, reference="autocast", count=False)
                run = trainer.train(steps)
            loss, plain = (mean(getattr(step, which) for step in trainer.history) for which in ("loss", "plain_loss"))
            missed += len(run.missed)
            yield f"| {name} | {seed} | {loss:.4f} | {plain:.4f} | {loss / plain - 1:+.3%} |"
    yield ""
    yield f"Each row trains {steps} steps. Products that the core missed: {missed}."


def main(models: list[str], seeds: int, steps: int, *, write: bool) -> None:
    """Print the table."""
    lines = []
    for line in rows(models, seeds, steps):
        print(line, flush=True)
        lines.append(line)
    if write:
        at = measured_at()
        table = "\n".join(lines) + f" Measured at commit {at['commit']}, {at['date']}."
        text = PAGE.read_text(encoding="utf-8")
        atomic_write(PAGE, replace_between(text, "<!-- autocast -->", "<!-- /autocast -->", table))


if __name__ == "__main__":
    parser = argument_parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=sorted(TASKS), default=["digits", "gpt", "lstm"])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3, help="seeds from 0 on")
    parser.add_argument("--write", action="store_true", help="write the table into docs/training-results.md")
    options = parser.parse_args()
    main(options.models, options.seeds, options.steps, write=options.write)
