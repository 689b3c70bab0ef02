"""Losses of the small GPT in NVFP4 by recipes, next to PyTorch's float32, over seeds.

    python bench/recipe_losses.py               # trains nothing: writes the page from docs/nvfp4.json
    python bench/recipe_losses.py --seeds 3     # trains the runs that docs/nvfp4.json lacks first
    python bench/recipe_losses.py --steps 20    # shorter runs: prints their losses, stores none

A run trains in PyTorch beside it, from the same weights and on the same batches. The emulator computes the products and
counts no cycles; 500 steps take two to five minutes. The row "the recipe" trains as `tensordash train --model gpt
--preset nvfp4 --recipe nvfp4 --seed SEED` does.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import mean, stdev
from typing import Any, NamedTuple

from common import DOCS, argument_parser, load_figures, measured_at, render, replace_between, store_figures
from tensordash_runtime import Device, Recipe
from tensordash_runtime.tasks import Task, load_task
from tensordash_runtime.training import Step, Trainer
from tensordash_storage.files import atomic_write

RESULTS = DOCS / "nvfp4.json"
PAGE = DOCS / "training-results.md"
STEPS = 500
TAIL_STEPS = 100
"""The last steps, whose mean loss stands for the loss at the end."""
EVERY_LAYER = Recipe(bf16_layers=("*",))


class Variant(NamedTuple):
    """How a run trains.

    Parameters
    ----------
    recipe : callable
        Makes the recipe for a task and a seed.
    late_recipe : Recipe, optional
        The recipe of the last fifth of the steps, if it is another one.
    """

    recipe: Callable[[Task, int], Recipe | None]
    late_recipe: Recipe | None = None

    def train(self, seed: int, steps: int) -> dict[str, float]:
        """Return the figures of a run."""
        task = load_task("gpt", seed)
        with Device("nvfp4", recipe=self.recipe(task, seed), rounding="stochastic", rounding_seed=seed) as device:
            trainer = Trainer(task, device, count=False)
            products = []
            for recipe, end in ((device.recipe, steps * 4 // 5), (self.late_recipe or device.recipe, steps)):
                device.recipe = recipe
                run = trainer.train(end)
                products += [
                    (each.macs, recipe is not None and recipe.runs_in_bf16(each.layer)) for each in run.contractions
                ]
        share = sum(macs for macs, in_bf16 in products if in_bf16) / sum(macs for macs, _ in products)
        return {**losses(trainer.history), "bf16_share": share}


def published(task: Task, seed: int) -> Recipe:
    """Return the recipe of `tensordash train`."""
    return Recipe(bf16_layers=task.bf16_layers, seed=seed)


def with_last_block(task: Task, seed: int) -> Recipe:
    """Return the recipe with the whole last block in bf16."""
    recipe = published(task, seed)
    return replace(recipe, bf16_layers=(*recipe.bf16_layers, "blocks.1.*"))


VARIANTS = {
    "every layer in bf16": Variant(lambda task, seed: EVERY_LAYER),
    "stochastic rounding alone": Variant(lambda task, seed: None),
    "the recipe": Variant(published),
    "the recipe, the last block in bf16": Variant(with_last_block),
    "the recipe, the last fifth of the steps in bf16": Variant(published, EVERY_LAYER),
}
"""By the name in the table."""


def losses(steps: Sequence[Step]) -> dict[str, float]:
    """Return the mean losses of a run, over all steps and over the last ones."""
    tail = steps[-TAIL_STEPS:]
    return {
        "steps": len(steps),
        "loss": mean(step.loss for step in steps),
        "plain_loss": mean(step.plain_loss for step in steps),
        "tail_loss": mean(step.loss for step in tail),
        "plain_tail_loss": mean(step.plain_loss for step in tail),
    }


def summary(runs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the table has of a variant's runs by seed; differences from float32 are in percent."""
    found = [run["figures"] for run in runs.values()]
    differences = [100 * (each["loss"] / each["plain_loss"] - 1) for each in found]
    tails = [100 * (each["tail_loss"] / each["plain_tail_loss"] - 1) for each in found]
    return {
        "seeds": len(found),
        "bf16_share": mean(each["bf16_share"] for each in found),
        "loss": mean(each["loss"] for each in found),
        "plain_loss": mean(each["plain_loss"] for each in found),
        "difference": mean(differences),
        "error": stdev(differences) / len(found) ** 0.5 if len(found) > 1 else None,
        "range": (min(differences), max(differences)),
        "tail_difference": mean(tails),
        "commits": sorted({run["commit"] for run in runs.values()}),
        "date": max(run["date"] for run in runs.values()),
    }


def written(text: str, results: Mapping[str, Any]) -> str:
    """Return the page with its table."""
    rows = {name: summary(runs) for name, runs in results.items()}
    return replace_between(text, "<!-- nvfp4 -->", "<!-- /nvfp4 -->", render("recipe_losses", rows=rows))


def main() -> int:
    """Run the command."""
    parser = argument_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=0, help="seeds from 0 on")
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    for seed in range(options.seeds or (1 if options.steps != STEPS else 0)):
        for name, variant in VARIANTS.items():
            results = load_figures(RESULTS)
            if options.steps == STEPS and str(seed) in results.get(name, {}):
                continue
            run = {**measured_at(), "figures": variant.train(seed, options.steps)}
            print(name, seed, run["figures"], flush=True)
            if options.steps == STEPS:
                results.setdefault(name, {})[str(seed)] = run
                store_figures(RESULTS, results)
    atomic_write(PAGE, written(PAGE.read_text(encoding="utf-8"), load_figures(RESULTS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
