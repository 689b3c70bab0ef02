"""Compare losses of the small GPT in NVFP4 with PyTorch's float32, for several recipes and seeds.

    python bench/recipe_losses.py               # trains nothing: writes the page from docs/nvfp4.json
    python bench/recipe_losses.py --seeds 3     # trains the runs that docs/nvfp4.json lacks first
    python bench/recipe_losses.py --steps 20    # shorter runs: prints their losses, stores none

PyTorch trains next to each run, from the same weights and on the same batches. The emulator computes the products, and
counts no cycles. 500 steps take two to five minutes. The row "the recipe" trains as `tensordash train --model gpt
--preset nvfp4 --recipe nvfp4 --seed SEED` does.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from statistics import mean
from typing import Any, NamedTuple

import torch

from common import DOCS, argument_parser, load_figures, measured_at, render, replace_between, store_figures
from tensordash_runtime import Device, Recipe
from tensordash_runtime.tasks import Task, load_task
from tensordash_runtime.training import Trainer
from tensordash_sim.networks.readers import text
from tensordash_storage.files import atomic_write

RESULTS = DOCS / "nvfp4.json"
PAGE = DOCS / "training-results.md"
STEPS = 500
TAIL_STEPS = 100
"""Number of steps in the mean loss at the end of the training."""
LAST_BIT = 2.0**-23
EVERY_LAYER = Recipe(bf16_layers=("*",))


def train_float32(seed: int, steps: int, change: float = 0.0) -> list[float]:
    """Return the losses of plain PyTorch after multiplying the initial weights by 1 + `change`."""
    task = load_task("gpt", seed)
    optimizer = task.optimizer(task.model.parameters())
    with torch.no_grad():
        for weight in task.model.parameters():
            weight.mul_(1 + change)
    found = []
    for batch in islice(task.order(0), steps):
        optimizer.zero_grad()
        loss = task.loss(task.model, batch)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def compare_changed_weight(seed: int, steps: int) -> dict[str, float]:
    """Return the figures of float32 with each initial weight changed in its last bit, next to plain float32."""
    return {**losses(train_float32(seed, steps, LAST_BIT), train_float32(seed, steps)), "bf16_share": 0.0}


class Variant(NamedTuple):
    """A way to train.

    Parameters
    ----------
    recipe : callable
        Returns the recipe for a task and a seed.
    late_recipe : Recipe, optional
        Recipe of the last fifth of the steps, if it differs.
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
        pairs = zip(*((step.loss, step.plain_loss) for step in trainer.history), strict=True)
        return {**losses(*pairs), "bf16_share": share}


def published(task: Task, seed: int) -> Recipe:
    """Return the recipe of `tensordash train`."""
    return Recipe(bf16_layers=task.bf16_layers, seed=seed)


def with_last_block(task: Task, seed: int) -> Recipe:
    """Return the recipe with the complete last block in bf16."""
    recipe = published(task, seed)
    return replace(recipe, bf16_layers=(*recipe.bf16_layers, "blocks.1.*"))


VARIANTS: dict[str, Callable[[int, int], dict[str, float]]] = {
    "float32, each weight changed in its last bit": compare_changed_weight,
    "every layer in bf16": Variant(lambda task, seed: EVERY_LAYER).train,
    "stochastic rounding alone": Variant(lambda task, seed: None).train,
    "the recipe": Variant(published).train,
    "the recipe, the last block in bf16": Variant(with_last_block).train,
    "the recipe, the last fifth of the steps in bf16": Variant(published, EVERY_LAYER).train,
}
"""Functions that train with a seed for a number of steps, by name in the table."""


def losses(device: Sequence[float], plain: Sequence[float]) -> dict[str, float]:
    """Return the mean losses of a run and of PyTorch's, over all steps and over the last ones."""
    return {
        "steps": len(device),
        "loss": mean(device),
        "plain_loss": mean(plain),
        "tail_loss": mean(device[-TAIL_STEPS:]),
        "plain_tail_loss": mean(plain[-TAIL_STEPS:]),
    }


def summary(runs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a variant's row of the table from its runs by seed. Differences from float32 are in percent."""
    found = [run["figures"] for run in runs.values()]
    differences = [100 * (each["loss"] / each["plain_loss"] - 1) for each in found]
    tails = [100 * (each["tail_loss"] / each["plain_tail_loss"] - 1) for each in found]
    return {
        "seeds": len(found),
        "bf16_share": mean(each["bf16_share"] for each in found),
        "loss": mean(each["loss"] for each in found),
        "plain_loss": mean(each["plain_loss"] for each in found),
        "difference": mean(differences),
        "range": (min(differences), max(differences)),
        "tail_difference": mean(tails),
        "data": sorted({run["data"] for run in runs.values()}),
        "commits": sorted({run["commit"] for run in runs.values()}),
        "date": max(run["date"] for run in runs.values()),
    }


def fill_page(page: str, results: Mapping[str, Any]) -> str:
    """Return the page with its table."""
    rows = {name: summary(results[name]) for name in VARIANTS if name in results}
    return replace_between(page, "<!-- nvfp4 -->", "<!-- /nvfp4 -->", render("recipe_losses", rows=rows))


def main() -> int:
    """Run the command."""
    parser = argument_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=0, help="seeds from 0 on")
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    torch.set_num_threads(1)  # The loss in float32 depends on the number of threads that share a sum.
    for seed in range(options.seeds or (1 if options.steps != STEPS else 0)):
        for name, train in VARIANTS.items():
            results = load_figures(RESULTS)
            if options.steps == STEPS and str(seed) in results.get(name, {}):
                continue
            run = {**measured_at(), "data": text()[1], "figures": train(seed, options.steps)}
            print(name, seed, run["figures"], flush=True)
            if options.steps == STEPS:
                results.setdefault(name, {})[str(seed)] = run
                store_figures(RESULTS, results)
    atomic_write(PAGE, fill_page(PAGE.read_text(encoding="utf-8"), load_figures(RESULTS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
