"""Measure what skipping can gain beyond a window of four steps, on random zeros and in a GPT's linear layers.

    python bench/past_four.py                # measure random zeros (a minute), then write the page
    python bench/past_four.py --core         # first run a product with random zeros on Verilog: ten minutes
    python bench/past_four.py --train 500    # first train the networks of the other tables: half an hour each
    python bench/past_four.py --logic core-skip core-drop    # first count the gates that these add: half an hour
    python bench/past_four.py --shapes       # first search shapes of tiles and synthesize them: half an hour
    python bench/past_four.py --json         # only measure random zeros; print them and the stored figures

Speedups of tiles are modelled, without memory. Those of cores are measured on their Verilog (`past_four_core.py`).
docs/past_four.json has command, commit and date of each figure. docs/system.md has the tables.
"""

import json
from collections.abc import Mapping
from functools import partial
from statistics import mean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import track
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from common import (
    DOCS,
    argument_parser,
    load_figures,
    measured_at,
    output_of,
    print_json,
    render,
    replace_between,
    store_figures,
)
from past_four_core import DROP_CORES, load_core, measure_on_verilog, measure_random_product
from tensordash import load_preset
from tensordash.configuration.core_config import CoreConfig
from tensordash_runtime import sort_channels
from tensordash_sim.cycles import random_counts
from tensordash_sim.lowering import MatrixProduct, Operation
from tensordash_sim.networks.gpt import load
from tensordash_sim.networks.training import Training
from tensordash_sim.performance.chip import ChipConfig, Machine, simulate_operation
from tensordash_storage.files import atomic_write

RESULTS = DOCS / "past_four.json"
COSTS = DOCS / "cost.json"
"""Figures of `bench/cost.py`, which has the logic of `core`."""
PAGE = DOCS / "system.md"
PRESETS = ("recommended", "recommended-2x8")
ZEROS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)
STREAM_STEPS = 128
STREAMS = 4000
MAPPED = ("core-skip", "core-drop")
PENALTIES = (0.0, 0.1, 1.0)
"""Weights of the penalty on activations, by default."""
TOKENS = 128
"""Positions of each block that run on the Verilog: one text."""
LOSS_BATCHES = 20
"""Number of batches after the training in the mean loss."""

SHAPES = "explore --zeros 0.95 --zeros 0.98 --drop-steps --rows 1,2,4 --columns 8 --depth 4 --sources 8 --staging ring"
"""Arguments of the search for shapes."""
SHAPE_FIGURES = ("label", "speedups", "dropped_speedups", "area_ratio", "added_ge_per_pe", "on_front", "ties")

Masks = dict[str, NDArray[np.bool_]]


def measure_random_zeros() -> list[dict[str, Any]]:
    """Return speedups of both presets for each share of zeros, with and without dropped steps."""
    rows = []
    for zeros in ZEROS:
        row: dict[str, Any] = {"zeros": zeros}
        for preset in PRESETS:
            steps = STREAMS * STREAM_STEPS
            count = partial(random_counts, load_preset(preset), zeros=zeros, steps=steps, length=STREAM_STEPS)
            row[preset] = {"speedup": count().speedup, "dropped_speedup": count(drop_steps=True).speedup}
        rows.append(row)
    return rows


def search_shapes() -> list[dict[str, Any]]:
    """Return the figures of tiles that a search finds on random zeros, the fastest with dropped steps first."""
    points = json.loads(output_of(*SHAPES.split(), "--json", "-o", str(DOCS.parent / "build" / "past_four")))["points"]
    points.sort(key=lambda point: -point["dropped_speedup"])
    return [{name: point[name] for name in SHAPE_FIGURES} for point in points]


def train(penalty: float, steps: int, scale: str = "small") -> dict[str, Any]:
    """Train a dense GPT with ReLU, and measure the linear layers around the activations in its last step.

    "sorted" has the hidden units in the order of their activity in the step before.
    """
    training = load(scale, 0, sparsity=0.0, activation="relu", activation_penalty=penalty)
    for _ in track(range(steps - 2), f"penalty {penalty}"):
        training.step()
    orders = [_sorted_channels(down) for _, down in record_step(training)]
    layers = record_step(training)
    in_order = [_choose_units(*each, order) for each, order in zip(layers, orders, strict=True)]
    measured = [measure_block(*each) for each in layers]
    measured_in_order = [measure_block(*each) for each in in_order]
    return {
        "penalty": penalty,
        "steps": steps,
        "loss": mean_loss(training),
        "zeros": mean(each["zeros"] for each in measured),
        "dead": mean(each["dead"] for each in measured),
        "whole": _sum_cycles([each["whole"] for each in measured]),
        "without_dead": _sum_cycles([each["without_dead"] for each in measured]),
        "sorted": _sum_cycles([each["whole"] for each in measured_in_order]),
        "sorted_without_dead": _sum_cycles([each["without_dead"] for each in measured_in_order]),
        "verilog": measure_on_verilog(layers, TOKENS),
        "verilog_without_dead": measure_on_verilog([_without_dead(*each) for each in layers], TOKENS),
        "verilog_sorted": measure_on_verilog(in_order, TOKENS, only_skipping=True),
        "verilog_sorted_without_dead": measure_on_verilog(
            [_without_dead(*each) for each in in_order], TOKENS, only_skipping=True
        ),
    }


def record_step(training: Training) -> list[tuple[Masks, Masks]]:
    """Run a training step; return the nonzero positions of both linear layers of each block."""
    captured: dict[str, Masks] = {}
    handles = [handle for name, layer in _linear_layers(training.model) for handle in _capture(name, layer, captured)]
    training.step()
    for handle in handles:
        handle.remove()
    blocks = sorted({name.rpartition(".")[0] for name in captured})
    return [(captured[f"{block}.up"], captured[f"{block}.down"]) for block in blocks]


def mean_loss(training: Training) -> float:
    """Return the mean cross entropy of further batches, without the penalty."""
    losses = []
    with torch.no_grad():
        for _ in range(LOSS_BATCHES):
            words = next(training.batches)
            losses.append(float(F.cross_entropy(training.model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())))
    return mean(losses)


def _linear_layers(model: nn.Module) -> list[tuple[str, nn.Linear]]:
    return [
        (name, layer)
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear) and name.endswith((".up", ".down"))
    ]


def _capture(name: str, layer: nn.Linear, captured: dict[str, Masks]) -> list[Any]:
    """Register hooks that store the nonzero positions of a layer's input, weights and gradient, (1, rows, columns)."""

    def forward(_: nn.Module, inputs: tuple[Tensor, ...], __: Tensor) -> None:
        captured[name] = {"A": _nonzero_positions(inputs[0]), "W": _nonzero_positions(layer.weight)}

    def backward(_: nn.Module, __: Any, gradients: tuple[Tensor, ...]) -> None:
        captured[name]["G"] = _nonzero_positions(gradients[0])

    return [layer.register_forward_hook(forward), layer.register_full_backward_hook(backward)]


def _nonzero_positions(tensor: Tensor) -> NDArray[np.bool_]:
    nonzero: NDArray[np.bool_] = (tensor.detach().flatten(0, -2) != 0).numpy()[None]
    return nonzero


def measure_block(up: Masks, down: Masks) -> dict[str, Any]:
    """Count the cycles of both layers' six products, with and without hidden units that are zero in the whole batch."""
    return {
        "zeros": 1 - float(down["A"].mean()),
        "dead": 1 - float(down["A"][0].any(axis=0).mean()),
        "whole": _cycles(up, down),
        "without_dead": _cycles(*_without_dead(up, down)),
    }


def _without_dead(up: Masks, down: Masks) -> tuple[Masks, Masks]:
    """Return both layers without hidden units that are zero in the whole batch."""
    return _choose_units(up, down, down["A"][0].any(axis=0).nonzero()[0])


def _sorted_channels(down: Masks) -> NDArray[np.int64]:
    """Return the order in which `tensordash_runtime.sort_channels` puts the hidden units."""
    activations = torch.from_numpy(down["A"][0])
    units = activations.shape[1]
    return sort_channels(nn.Linear(1, units), nn.Linear(units, 1), activations).numpy()


def _choose_units(up: Masks, down: Masks, units: NDArray[np.int64]) -> tuple[Masks, Masks]:
    """Return both layers with these hidden units, in this order."""
    return (
        {"A": up["A"], "W": up["W"][:, units], "G": up["G"][:, :, units]},
        {"A": down["A"][:, :, units], "W": down["W"][:, :, units], "G": down["G"]},
    )


def _cycles(up: Masks, down: Masks) -> dict[str, float]:
    """Count the cycles of a dense tile, the tile, a tile that drops steps, and one that skips passes as well."""
    cycles = dict.fromkeys(("dense", "tile", "dropped", "skipped"), 0.0)
    tile = load_preset("recommended")
    machine = Machine(tile, ChipConfig(tiles=1), drop_steps=True)
    for layer, masks in (("up", up), ("down", down)):
        _, samples, in_features = masks["A"].shape
        geometry = MatrixProduct(batch=1, samples=samples, in_features=in_features, out_features=masks["G"].shape[2])
        for operation in Operation:
            sides = {name: masks[name] for name in (operation.left, operation.right)}
            result = simulate_operation(geometry, operation, sides, machine)
            assert result.dropped is not None
            # ReLU's mask zeroes parts of the activation's gradient. Passes whose results are all masked can be skipped.
            is_masked = layer == "down" and operation is Operation.INPUT_GRADIENT
            needed_share = _needed_share(masks["A"][0], tile.rows, tile.columns) if is_masked else 1.0
            for name, count in (
                ("dense", result.dense_compute),
                ("tile", result.compute),
                ("dropped", result.dropped),
                ("skipped", result.dropped * needed_share),
            ):
                cycles[name] += count
    return cycles


def _needed_share(mask: NDArray[np.bool_], rows: int, columns: int) -> float:
    """Return the share of passes with an unmasked result. All passes take the same time."""
    height, width = (-(-extent // size) * size for extent, size in zip(mask.shape, (columns, rows), strict=True))
    padded = np.zeros((height, width), np.bool_)
    padded[: mask.shape[0], : mask.shape[1]] = mask
    return float(padded.reshape(height // columns, columns, width // rows, rows).any(axis=(1, 3)).mean())


def _sum_cycles(cycles: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(each[name] for each in cycles) for name in cycles[0]}


def measure_added_gates(preset: str) -> dict[str, Any]:
    """Return the gate equivalents that a preset's last feature adds, by unit.

    `core-skip` is compared with `core`, and `core-drop` with the same core without dropped steps. "around_ns" is the
    delay around the tile. "ratio" is the area over the dense core's, by source of the memories' area.
    """
    plain = load_figures(COSTS)["core"]["figures"] if preset == "core-skip" else _synthesize(DROP_CORES["skipped"])
    figures = _synthesize(load_core(preset))
    before, after = (each["tensordash"]["units_ge"] for each in (plain, figures))
    return {
        "added_ge": {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)},
        "around_ns": {"before": plain["around_ns"], "after": figures["around_ns"]},
        "ratio": figures["ratio"],
    }


def _synthesize(config: CoreConfig) -> dict[str, Any]:
    from tensordash_synth.core_cost import synthesize_core

    return synthesize_core(config, power=False, jobs=1).to_json()


def fill_page(text: str, results: Mapping[str, Any]) -> str:
    """Return the page with its tables."""
    return replace_between(text, "<!-- past four -->", "<!-- /past four -->", render("past_four", results=results))


def main() -> None:
    """Run the command."""
    parser = argument_parser(__doc__)
    parser.add_argument("--train", type=int, metavar="STEPS", help="train the networks first")
    parser.add_argument("--penalties", type=float, nargs="+", default=PENALTIES, metavar="W", help="weights to train")
    parser.add_argument("--core", action="store_true", help="run a product with random zeros on Verilog first")
    parser.add_argument("--shapes", action="store_true", help="search shapes of tiles on random zeros first")
    parser.add_argument("--logic", nargs="+", choices=MAPPED, default=(), help="presets to map first")
    parser.add_argument("--json", action="store_true", help="print one JSON document; write nothing")
    arguments = parser.parse_args()
    if arguments.train is not None and arguments.train < 1:
        parser.error(f"--train must be at least 1, not {arguments.train}")
    if arguments.json:
        stored = load_figures(RESULTS)
        added = {preset: sum(each["added_ge"].values()) for preset, each in stored.get("logic", {}).items()}
        cores = stored.get("core", {}).get("rows", [])
        shapes = stored.get("shapes", {}).get("points", [])
        figures = {"core": cores, "shapes": shapes, "ffn_step": stored.get("gpt", {}), "added_ge": added}
        print_json({"tile": measure_random_zeros(), **figures})
        return
    torch.manual_seed(0)
    torch.set_num_threads(1)  # Losses then do not depend on the machine's number of cores.
    results = load_figures(RESULTS)
    results["tile"] = {"command": "python bench/past_four.py", **measured_at(), "rows": measure_random_zeros()}
    store_figures(RESULTS, results)
    if arguments.core:
        command = "python bench/past_four.py --core"
        results["core"] = {"command": command, **measured_at(), "rows": measure_random_product(ZEROS)}
        store_figures(RESULTS, results)
    if arguments.shapes:
        results["shapes"] = {"command": f"tensordash {SHAPES}", **measured_at(), "points": search_shapes()}
        store_figures(RESULTS, results)
    for preset in arguments.logic:
        row = {"command": f"python bench/past_four.py --logic {preset}", **measured_at(), **measure_added_gates(preset)}
        results["logic"] = {**results.get("logic", {}), preset: row}
        store_figures(RESULTS, results)
    for penalty in arguments.penalties if arguments.train else ():
        command = f"python bench/past_four.py --train {arguments.train}"
        row = {"command": command, **measured_at(), **train(penalty, arguments.train)}
        results["gpt"] = {**results.get("gpt", {}), str(penalty): row}
        store_figures(RESULTS, results)
    atomic_write(PAGE, fill_page(PAGE.read_text(encoding="utf-8"), results))


if __name__ == "__main__":
    main()
