"""Measure what sparse weights gain on cores, and what a mask of the weights' gradient adds.

    python bench/sparse_weights.py                # write the page
    python bench/sparse_weights.py --train 500    # first train the networks: five minutes each
    python bench/sparse_weights.py --positions    # run AxG of a network with more positions: ten minutes
    python bench/sparse_weights.py --json         # print the stored figures

The weights of both linear layers around ReLU are sparse. All six products of one block run on Verilog, with one text.
The weights' gradient (AxG) runs twice: without a mask, and with the weights' mask. docs/sparse_weights.json has the
command, commit and date of each figure. docs/system.md has the tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.progress import track
from torch import nn

from common import DOCS, argument_parser, load_figures, measured_at, print_json, render, replace_between, store_figures
from past_four import TOKENS, mean_loss, record_step
from past_four_core import CORES, DROP_CORES, Masks, Workload, ffn_workloads, run_workloads
from tensordash_sim.networks.gpt import load
from tensordash_sim.networks.pruning import RiggedLottery, StaticSparsity
from tensordash_storage.files import atomic_write

RESULTS = DOCS / "sparse_weights.json"
PAGE = DOCS / "system.md"
MEASURED = {
    "core-dense": CORES["dense"],
    "core-dense that skips": CORES["dense_skipped"],
    "core-skip": CORES["skipped"],
    "dense core-drop": DROP_CORES["dense"],
    "dense core-drop that skips": DROP_CORES["dense_skipped"],
    "core-drop": DROP_CORES["dropped"],
}
"""Cores by name. The last three have the sizes of `core-drop`, and memory of 32 bytes a cycle."""
PAIRS = (
    ("core-dense", "core-dense that skips"),
    ("core-dense", "core-skip"),
    ("dense core-drop", "dense core-drop that skips"),
    ("dense core-drop", "core-drop"),
)
"""Dense cores and the cores that are compared with them."""
BLOCK = 1
"""The block of the network whose products run on Verilog."""
POSITIONS = (128, 512, 1024)
"""Positions of the products for which AxG, whose reduction they are, runs again."""
LONG_NETWORK = "static, blocks of 4x4, 87.5%"
"""The network of these products."""
TILE = 4
"""Rows and columns of the cores' tiles, and of blocks of weights."""
CHANGES = 15
"""Number of intervals between the changes of dynamic masks; the last quarter of the training has none."""


@dataclass(frozen=True, kw_only=True)
class Sparsity:
    """How the weights are masked.

    Parameters
    ----------
    zeros : float
        Share of masked weights; 0 is dense.
    block : int
        Extent of square blocks that are masked together.
    is_dynamic : bool
        Whether masks change in the training.
    """

    zeros: float
    block: int = 1
    is_dynamic: bool = False

    def hooks(self, weights: dict[str, nn.Parameter], steps: int) -> StaticSparsity:
        """Mask weights for a training of a number of steps."""
        generator = torch.Generator().manual_seed(0)
        if not self.is_dynamic:
            return StaticSparsity(weights, self.zeros, generator, block=self.block)
        when = {"every": max(1, steps // CHANGES), "last_step": max(1, steps * 3 // 4)}
        return RiggedLottery(weights, self.zeros, generator, block=self.block, **when)


KINDS: dict[str, dict[str, Any]] = {
    "static": {},
    "static, blocks of 4x4": {"block": TILE},
    "dynamic, blocks of 4x4": {"block": TILE, "is_dynamic": True},
}
NETWORKS = {
    "dense": Sparsity(zeros=0.0),
    **{f"{name}, {zeros:.1%}": Sparsity(zeros=zeros, **how) for name, how in KINDS.items() for zeros in (0.875, 0.95)},
}


def train(sparsity: Sparsity, steps: int) -> tuple[dict[str, Any], list[tuple[Masks, Masks]]]:
    """Train a GPT with ReLU; return its loss and zeros, and the nonzero positions of each block in the last step."""
    training = load("small", 0, sparsity=0.0, activation="relu")
    weights = {
        name: weight
        for name, weight in training.model.named_parameters()
        if name.endswith((".up.weight", ".down.weight"))
    }
    training.hooks = hooks = sparsity.hooks(weights, steps)
    for _ in track(range(steps - 1), str(sparsity)):
        training.step()
    layers = _with_masks(record_step(training), hooks)
    row = {
        "steps": steps,
        "loss": mean_loss(training),
        "dense_steps": hooks.dense_steps if isinstance(hooks, RiggedLottery) else steps * (not sparsity.zeros),
        "zeros": {
            f"{name} {tensor}": 1 - float(np.mean([each[place][tensor].mean() for each in layers]))
            for place, name in enumerate(("up", "down"))
            for tensor in "AWG"
        },
        "masked_passes": 1 - float(np.mean([_needed_share(each["W"][0]) for both in layers for each in both])),
    }
    return row, layers


def _with_masks(layers: Sequence[tuple[Masks, Masks]], hooks: StaticSparsity) -> list[tuple[Masks, Masks]]:
    """Return layers in which weights are zero only where they are masked; the gradient's mask is then W's."""
    return [
        (
            {**up, "W": hooks.masks[f"blocks.{block}.up.weight"].numpy()[None]},
            {**down, "W": hooks.masks[f"blocks.{block}.down.weight"].numpy()[None]},
        )
        for block, (up, down) in enumerate(layers)
    ]


def _needed_share(mask: np.ndarray) -> float:
    rows, columns = mask.shape
    return float(mask.reshape(rows // TILE, TILE, columns // TILE, TILE).any(axis=(1, 3)).mean())


def measure(up: Masks, down: Masks, known: Mapping[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Return the cycles of each product on each core's Verilog; masked products have the suffix "masked".

    Cycles of dense cores that skip nothing do not depend on values. They are those in `known`, if there are any.
    """
    layers = {"up": up, "down": down}
    workloads = [*ffn_workloads(layers, TOKENS), *_masked_gradients(layers, TOKENS)]
    found: dict[str, dict[str, int]] = {}
    for name, config in MEASURED.items():
        if not config.skip_masked and name in known:
            found[name] = known[name]
            continue
        found[name] = dict(run_workloads(config, workloads, name))
    return found


def measure_positions(up: Masks, down: Masks) -> dict[str, dict[str, dict[str, int]]]:
    """Return the cycles of both layers' AxG by number of positions and core: "plain", and "masked" if it skips."""
    layers = {"up": up, "down": down}
    found: dict[str, dict[str, dict[str, int]]] = {}
    for positions in POSITIONS:
        kinds = {"plain": _gradients(layers, positions), "masked": _masked_gradients(layers, positions)}
        found[str(positions)] = cores = {}
        for name, config in MEASURED.items():
            chosen = {"plain"} if not config.skip_masked else {"masked"}
            chosen |= {"plain", "masked"} if config.tile.sparsity != "none" else set()
            cores[name] = {
                kind: sum(cycles for _, cycles in run_workloads(config, kinds[kind], f"{name}, {kind}"))
                for kind in sorted(chosen)
            }
    return found


def _gradients(layers: Mapping[str, Masks], positions: int) -> list[Workload]:
    return [each for each in ffn_workloads(layers, positions) if "AxG" in each[0]]


def _masked_gradients(layers: Mapping[str, Masks], positions: int) -> list[Workload]:
    """Return both layers' AxG with the weights' mask; their names have the suffix "masked"."""
    workloads = ffn_workloads(layers, positions, mask_weights=True)
    return [(f"{each[0]} masked", *each[1:]) for each in workloads if each[0].endswith("AxG")]


def fill_page(text: str, results: Mapping[str, Any]) -> str:
    """Return the page with its tables."""
    figures = {"results": results, "names": NETWORKS, "products": PRODUCTS, "pairs": PAIRS}
    filled = render("sparse_weights", **figures, totals=totals)
    return replace_between(text, "<!-- sparse weights -->", "<!-- /sparse weights -->", filled)


PRODUCTS = tuple(f"{layer} {operation}" for layer in ("up", "down") for operation in ("AxW", "WxG", "AxG"))


def totals(cycles: Mapping[str, int]) -> dict[str, int]:
    """Return the cycles of all six products, without and with masked AxG."""
    return {
        "plain": sum(cycles[name] for name in PRODUCTS),
        "masked": sum(cycles.get(f"{name} masked", cycles[name]) for name in PRODUCTS),
    }


def main() -> None:
    """Run the command."""
    parser = argument_parser(__doc__)
    parser.add_argument("--train", type=int, metavar="STEPS", help="train the networks first")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS), metavar="NAME")
    parser.add_argument("--json", action="store_true", help="print one JSON document; write nothing")
    parser.add_argument(
        "--positions", action="store_true", help=f"train {LONG_NETWORK}, and run its AxG on Verilog first"
    )
    arguments = parser.parse_args()
    if arguments.train is not None and arguments.train < 1:
        parser.error(f"--train must be at least 1, not {arguments.train}")
    torch.set_num_threads(1)  # On a busy machine a second thread makes these small layers slower.
    results = load_figures(RESULTS)
    if arguments.json:
        print_json(results)
        return
    for name in arguments.networks if arguments.train else ():
        row, layers = train(NETWORKS[name], arguments.train)
        command = f"python bench/sparse_weights.py --train {arguments.train}"
        known = results.get("networks", {}).get("dense", {}).get("cycles", {})
        row = {"command": command, **measured_at(), **row, "cycles": measure(*layers[BLOCK], known)}
        results["networks"] = {**results.get("networks", {}), name: row}
        store_figures(RESULTS, results)
    if arguments.positions:
        steps = results["networks"][LONG_NETWORK]["steps"]
        _, layers = train(NETWORKS[LONG_NETWORK], steps)
        row = {"command": "python bench/sparse_weights.py --positions", **measured_at()}
        results["positions"] = {**row, "network": LONG_NETWORK, "cycles": measure_positions(*layers[BLOCK])}
        store_figures(RESULTS, results)
    atomic_write(PAGE, fill_page(PAGE.read_text(encoding="utf-8"), results))


if __name__ == "__main__":
    main()
