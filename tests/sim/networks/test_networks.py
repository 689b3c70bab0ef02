"""Test that every network trains and has the published shapes."""

import math
import subprocess
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tensordash.configuration.errors import TensorDashError
from tensordash_sim.networks import NAMES, describe, load, options
from tensordash_sim.networks.gcn import SCALES as GCN_SCALES
from tensordash_sim.networks.gpt import gpt_geometries
from tensordash_sim.networks.img2txt import PAD
from tensordash_sim.networks.ncf import NeuMF, Shape
from tensordash_sim.networks.resnet50 import Trunk
from tensordash_sim.networks.snli import PAIRS
from tensordash_sim.networks.training import Training
from tensordash_sim.trace import Trace, record

HERE = [name for name in NAMES if name != "bert" or find_spec("transformers")]


def weights(run: Training) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in run.model.parameters()])


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "name",  # Slow networks, including resnet50, run at night.
    [pytest.param(name, marks=pytest.mark.slow if name == "resnet50-sparse" else ()) for name in HERE],
)
def test_trains_and_repeats(name: str, tmp_path: Path) -> None:
    """Two runs of a seed are equal bit by bit, even if other code draws random numbers. Another seed differs.

    Recording one of the runs changes nothing and misses no product.
    """
    run, same, other = load(name, "tiny", 3), load(name, "tiny", 3), load(name, "tiny", 4)
    before = weights(run).clone()
    assert torch.equal(before, weights(same))
    state = torch.get_rng_state()
    losses = [run.step() for _ in range(3)]
    assert torch.equal(state, torch.get_rng_state())  # The run leaves the user's random state unchanged.
    torch.rand(5)
    with record(tmp_path / "run.trace", model=same.model, steps=1):
        assert losses == [same.step() for _ in range(3)]
    (recorded,) = Trace.open(tmp_path / "run.trace").steps
    assert recorded.uncaptured == ()
    assert {str(entry.operation) for entry in recorded.records} == {"AxW", "WxG", "AxG"}
    assert all(map(math.isfinite, losses))
    assert torch.equal(weights(run), weights(same))
    assert not torch.equal(weights(run), before)
    assert torch.isfinite(weights(run)).all()
    assert losses[0] != other.step()
    assert run.steps == 3
    assert run.steps_per_epoch > 1


@pytest.mark.parametrize("name", HERE)
def test_every_trained_parameter_learns(name: str) -> None:
    run = load(name, "tiny", 0)
    run.step()
    without = [n for n, p in run.model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    # One small batch does not use every parameter: boxes or masks without an object, rare words.
    assert not [n for n in without if not n.startswith(("heads.", "softmax.tail", "bert.embeddings"))]


@pytest.mark.parametrize("name", HERE)
def test_conditions(name: str) -> None:
    run = load(name, "tiny", 5)
    assert list(run.conditions)[:3] == ["model", "scale", "seed"]
    assert [run.conditions[key] for key in ("model", "scale", "seed")] == [name, "tiny", "5"]
    assert {"data", "batch"} <= set(run.conditions)
    assert all(isinstance(value, str) and value for value in run.conditions.values())
    assert "real" in run.conditions["data"] or "made" in run.conditions["data"]


@pytest.mark.parametrize("name", [n for n in HERE if n in ("img2txt", "bert", "ncf", "gcn", "gpt")])
def test_loss_falls(name: str) -> None:
    """At the tiny scale, other networks have too few weights to learn within seconds."""
    run = load(name, "tiny", 0)
    if name == "bert":  # From random weights, bert learns only a single batch in this time.
        run.batches = repeat(next(run.batches))
        run.optimizer.param_groups[0]["lr"] = 0.01
    losses = [run.step() for _ in range({"bert": 20, "ncf": 150}.get(name, 50))]
    fifth = len(losses) // 5
    assert sum(losses[-fifth:]) < 0.97 * sum(losses[:fifth])


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_small_scale(name: str) -> None:
    """One step takes less than a minute on one processor core."""
    run = load(name, "small", 0)
    start = time.perf_counter()
    assert math.isfinite(run.step())
    assert time.perf_counter() - start < 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "steps"), [("squeezenet", 300), ("vgg16", 250), ("resnet50", 200), ("resnet50-sparse", 300), ("snli", 200)]
)
def test_small_scale_learns(name: str, steps: int) -> None:
    run = load(name, "small", 0)
    losses = [run.step() for _ in range(steps)]
    assert sum(losses[-20:]) / 20 < 0.95 * math.log(3 if name == "snli" else 10)  # Guessing has a higher loss.


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


PUBLISHED = {
    "squeezenet": 1_248_424,
    "vgg16": 138_357_544,
    "resnet50": 25_557_032,
    "resnet50-sparse": 25_557_032,
    "detectron2": 44_343_216,  # 41.7 million parameters, and the mask head
    "bert": 22_713_216 + 2 * 384 + 2,  # MiniLM, and the classifier
    "gpt": 40 * (12 * 5120**2 + 13 * 5120) + (50_257 + 2048 + 2) * 5120,  # 12.85 billion parameters
}


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name in HERE])
def test_parameters_as_published(name: str) -> None:
    family = import_module(f"tensordash_sim.networks.{name.replace('-', '_')}")
    with torch.device("meta"):
        model = family.build("full")
    assert parameters(model) == PUBLISHED[name]


def test_parts_as_published() -> None:
    with torch.device("meta"):
        # ResNet-152 with its classifier; NeuMF on MovieLens-20M, as in MLPerf.
        assert parameters(Trunk((3, 8, 36, 3), 64)) + 2048 * 1000 + 1000 == 60_192_808
        film_club = Shape(users=138_493, items=26_744, factors=64, layers=(256, 256, 128, 64), batch=1)
        assert parameters(NeuMF(film_club)) == 31_832_577


@pytest.mark.parametrize("name", ["squeezenet", "vgg16", "resnet50", "img2txt", "snli", "ncf", "gcn", "detectron2"])
def test_full_scale_builds(name: str) -> None:
    family = import_module(f"tensordash_sim.networks.{name}")
    with torch.device("meta"):
        model = family.build("full")
        if name in ("squeezenet", "vgg16", "resnet50"):
            size = family.SCALES["full"].size
            assert model(torch.empty(2, 3, size, size)).shape == (2, 1000)
        if name == "squeezenet":
            # After the first pooling, the paper's expand layers have planes of 55 x 55.
            assert model.features[:3](torch.empty(1, 3, size, size)).shape == (1, 96, 55, 55)


def test_gcn_is_causal() -> None:
    run = load("gcn", "tiny", 0)
    model, words = run.model, next(run.batches)
    changed = words.clone()
    changed[:, 8] = (changed[:, 8] + 1) % GCN_SCALES["tiny"].vocabulary
    first, second = (model.layers(model.embed(each).mT) for each in (words, changed))  # type: ignore[operator]
    assert torch.equal(first[:, :, :8], second[:, :, :8])
    assert not torch.equal(first[:, :, 8:], second[:, :, 8:])


def test_gpt_is_causal() -> None:
    run = load("gpt", "tiny", 0)
    words = next(run.batches)[:, :-1]
    changed = words.clone()
    changed[:, 8] ^= 1
    first, second = run.model(words), run.model(changed)
    assert torch.equal(first[:, :8], second[:, :8])
    assert not torch.equal(first[:, 8:], second[:, 8:])


def test_gpt_at_full_scale_is_shapes_only() -> None:
    with pytest.raises(ValueError, match=r"scale of gpt must be small or tiny, not full: .*gpt_geometries"):
        load("gpt", "full")


def test_gpt_geometries_match_the_model() -> None:
    run = load("gpt", "tiny", 0)
    shapes = dict(gpt_geometries(batch=4, scale="tiny"))
    seen = {}

    def note(name: str) -> None:
        def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            seen[name] = (inputs[0].numel() // inputs[0].shape[-1], inputs[0].shape[-1], output.shape[-1])

        run.model.get_submodule(name).register_forward_hook(hook)

    for name, module in run.model.named_modules():
        if isinstance(module, nn.Linear):
            note(name)
    run.step()
    for name, extents in seen.items():
        shape = shapes.pop(name)
        assert shape.shapes["A"] == (1, *extents[:2])
        assert shape.shapes["W"] == (1, extents[2], extents[1])
    assert {name.rpartition(".")[2] for name in shapes} == {"scores", "values", "words"}


def test_captions_end_and_padding_costs_nothing() -> None:
    run = load("img2txt", "tiny", 0)
    images, captions = next(run.batches)
    longer = torch.cat([captions, torch.full((len(captions), 3), PAD)], dim=1)
    run.model.eval()
    assert run.loss(run.model, (images, captions)).item() == pytest.approx(
        run.loss(run.model, (images, longer)).item(), rel=1e-5
    )


def test_frozen_encoder() -> None:
    run = load("img2txt", "tiny", 0, frozen=True)
    encoder = run.model.get_submodule("encoder")
    before = [parameter.clone() for parameter in encoder.parameters()]
    run.step()
    assert all(torch.equal(old, new) for old, new in zip(before, encoder.parameters(), strict=True))


def test_snli_has_zeros_where_padding_is() -> None:
    """At the paper's batch size, the projections' inputs have its shares of zeros: 63% and 60%."""
    run = load("snli", "small", 0)
    family = import_module("tensordash_sim.networks.snli")
    batches = family._batches(0, family.SCALES["full"])
    pairs = [next(batches)[0] for _ in range(20)]
    for side, reported in ((0, 0.63), (1, 0.60)):
        padding = sum(float((pair[side] == 0).float().mean()) for pair in pairs) / len(pairs)
        assert padding == pytest.approx(reported, abs=0.06)
    assert run.steps_per_epoch == PAIRS // 32


def test_describe() -> None:
    listed = "squeezenet, vgg16, resnet50, resnet50-sparse, img2txt, snli, bert, detectron2, ncf, gcn, gpt"
    assert ", ".join(NAMES) == listed
    for name in NAMES:
        info = describe(name)
        assert info.name == name
        assert all((info.title, info.source, info.data, info.paper_speedup))


def test_invalid_arguments() -> None:
    with pytest.raises(ValueError, match="model must be one of .*vgg16, not 'vgg19'"):
        load("vgg19")
    with pytest.raises(ValueError, match="model must be one of"):
        describe("vgg19")
    with pytest.raises(ValueError, match="scale must be one of full, small, tiny, not 'big'"):
        load("vgg16", "big")
    with pytest.raises(ValueError, match="seed must be an integer from 0 to .*, not -1"):
        load("vgg16", "tiny", -1)
    with pytest.raises(
        TypeError, match="an option of gpt must be one of sparsity, activation, activation_penalty, not density"
    ):
        load("gpt", "tiny", 0, density=0.1)
    with pytest.raises(ValueError, match="activation_penalty must be a number of at least 0, not -0.1"):
        load("gpt", "tiny", 0, activation_penalty=-0.1)
    with pytest.raises(TypeError, match="an option of vgg16 must be absent, not sparsity"):
        load("vgg16", "tiny", 0, sparsity=0.9)
    with pytest.raises(ValueError, match="method must be one of dynamic-reparameterization, sparse-momentum, not 'x'"):
        load("resnet50-sparse", "tiny", 0, method="x")
    with pytest.raises(TypeError, match="frozen must be true or false, not 1"):
        load("img2txt", "tiny", 0, frozen=1)
    assert options("resnet50-sparse") == {"method": "sparse-momentum", "sparsity": 0.9, "every": None}


def test_a_penalty_makes_zeros_after_relu() -> None:
    def zeros(penalty: float) -> float:
        run = load("gpt", "tiny", 0, sparsity=0.0, activation="relu", activation_penalty=penalty)
        for _ in range(20):
            run.step()
        found = []
        for block in run.model.blocks:  # type: ignore[union-attr]
            block.down.register_forward_hook(lambda _, inputs, __: found.append(float((inputs[0] == 0).float().mean())))
        run.step()
        return sum(found) / len(found)

    assert zeros(10.0) > zeros(0.0) + 0.2


def test_without_torch_or_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensordash.extras.find_spec", lambda name: None)
    with pytest.raises(TensorDashError, match="needs the extra trace: pip install"):
        load("vgg16")
    monkeypatch.setattr("tensordash.extras.find_spec", lambda name: None if name == "transformers" else name)
    with pytest.raises(TensorDashError, match="bert needs the extra trace: pip install"):
        load("bert", "tiny")


def test_importing_needs_no_torch() -> None:
    code = (
        "import sys; from tensordash_sim.networks import describe; import tensordash_sim.networks.data; "
        "describe('gpt'); sys.exit('torch' in sys.modules or 'sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
