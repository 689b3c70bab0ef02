"""Test that pruning in training keeps the requested sparsity and changes masks as in the papers."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tensordash_sim.networks import load
from tensordash_sim.networks.pruning import (
    DynamicReparameterization,
    RiggedLottery,
    SparseMomentum,
    StaticSparsity,
    apportion,
    prunable,
)


class Bench:
    """A small network to prune, with an optimizer and random data."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 32), nn.Linear(32, 5)
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
        self.weights = prunable(self.model)
        self.generator = torch.Generator().manual_seed(1)
        self.images, self.labels = torch.randn(16, 3, 6, 6), torch.arange(16) % 5

    def train(self, hooks: StaticSparsity, steps: int) -> float:
        for _ in range(steps):
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(self.images), self.labels)
            loss.backward()
            hooks.before_update()
            self.optimizer.step()
            hooks.after_update()
        return loss.item()

    @property
    def zeros(self) -> float:
        every = torch.cat([weight.detach().flatten() for weight in self.weights.values()])
        return float((every == 0).float().mean())


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_pruned_weights(bench: Bench) -> None:
    assert list(bench.weights) == ["0.weight", "4.weight", "5.weight"]
    assert bench.weights["4.weight"] is bench.model[4].weight


@pytest.mark.parametrize(
    ("total", "shares", "room", "expected"),
    [
        (0, [1.0, 2.0], [5, 5], [0, 0]),
        (6, [1.0, 2.0], [9, 9], [2, 4]),
        (6, [1.0, 2.0], [9, 1], [5, 1]),
        (4, [0.0, 0.0], [9, 9], [2, 2]),
        (5, [1.0, 0.0], [3, 9], [3, 2]),
        (1, [1.0, 1.0, 1.0], [1, 1, 1], [1, 0, 0]),
        (9, [1e-30, 1.0], [4, 5], [4, 5]),
    ],
)
def test_apportion(total: int, shares: list[float], room: list[int], expected: list[int]) -> None:
    assert apportion(total, shares, room) == expected


def test_apportion_without_room() -> None:
    with pytest.raises(ValueError, match="total must be at most the room of 3, not 4"):
        apportion(4, [1.0, 1.0], [1, 2])


def test_static(bench: Bench) -> None:
    before = {name: weight.detach().clone() for name, weight in bench.weights.items()}
    hooks = StaticSparsity(bench.weights, 0.875, bench.generator)
    masks = {name: mask.clone() for name, mask in hooks.masks.items()}
    assert hooks.sparsity == pytest.approx(0.875, abs=1e-3)
    for name, weight in bench.weights.items():
        assert torch.equal(weight, before[name] * masks[name])
        assert int((weight == 0).sum()) == round(0.875 * weight.numel())
    bench.train(hooks, 20)
    for name, weight in bench.weights.items():
        assert torch.equal(weight != 0, masks[name])  # Zeros stay zeros; other weights learn.
        assert weight.grad is not None
        assert not weight.grad[~masks[name]].any()
        assert not torch.equal(weight, before[name] * masks[name])
    assert all(torch.equal(hooks.masks[name], masks[name]) for name in masks)


def test_static_with_an_optimizer_that_moves_zeros(bench: Bench) -> None:
    hooks = StaticSparsity(bench.weights, 0.5, bench.generator)
    with torch.no_grad():
        bench.weights["0.weight"].add_(1)
    hooks.after_update()
    assert bench.zeros == pytest.approx(0.5, abs=1e-3)


def test_sparse_momentum(bench: Bench) -> None:
    hooks = SparseMomentum(bench.weights, 0.9, bench.generator, bench.optimizer, every=5, total_steps=1000)
    bench.train(hooks, 4)
    before = {name: mask.clone() for name, mask in hooks.masks.items()}
    counts = {name: int(mask.sum()) for name, mask in before.items()}
    assert hooks.moved == 0
    loss = bench.train(hooks, 1)
    # Almost half of each tensor: the cosine has fallen by five thousandths.
    assert hooks.moved == pytest.approx(0.5 * sum(counts.values()), abs=4)
    assert hooks.sparsity == pytest.approx(0.9, abs=1e-3)  # as many weights return as are pruned
    grown = {name: hooks.masks[name] & ~before[name] for name in before}
    assert sum(int(mask.sum()) for mask in grown.values()) > 0
    for name, mask in grown.items():
        assert not bench.weights[name][mask].any()  # Grown weights start at zero.
    bench.train(hooks, 1)
    assert any(bench.weights[name][mask].any() for name, mask in grown.items())  # Later they learn.
    assert bench.train(hooks, 60) < loss
    assert bench.zeros == pytest.approx(0.9, abs=2e-3)


def test_sparse_momentum_prunes_small_and_grows_where_momentum_is() -> None:
    """The case is worked by hand: two tensors of 8 weights, half of them masked."""
    layers = nn.ModuleDict({"a": nn.Linear(8, 1, bias=False), "b": nn.Linear(8, 1, bias=False)})
    weights = prunable(layers)
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.0, momentum=0.9)
    hooks = SparseMomentum(weights, 0.5, torch.Generator(), optimizer, every=1, total_steps=10**9, prune_rate=0.5)
    momentum = {"a": [3.0, 3, 3, 3, 0, 9, 8, 7], "b": [1.0, 1, 1, 1, 0, 0, 0, 5]}
    with torch.no_grad():
        for name, weight in weights.items():
            hooks.masks[name][:] = torch.arange(8) < 4
            weight.copy_(torch.tensor([[4.0, -1, 3, 2, 0, 0, 0, 0]]))
            weight.grad = torch.tensor([momentum[name[0]]])
    hooks.before_update()
    optimizer.step()  # The first momentum is the gradient.
    hooks.after_update()
    # Each tensor loses its smallest two, -1 and 2. Mean momenta are 3 and 1: a grows three of the four, b one.
    assert hooks.moved == 4
    assert hooks.masks["a.weight"].tolist() == [[True, False, True, False, False, True, True, True]]
    assert hooks.masks["b.weight"].tolist() == [[True, False, True, False, False, False, False, True]]
    assert weights["a.weight"].tolist() == [[4, 0, 3, 0, 0, 0, 0, 0]]


def test_prune_rate_falls(bench: Bench) -> None:
    hooks = SparseMomentum(bench.weights, 0.9, bench.generator, bench.optimizer, every=1, total_steps=10)
    moved = []
    for _ in range(10):
        bench.train(hooks, 1)
        moved.append(hooks.moved)
    assert moved == sorted(moved, reverse=True)
    assert moved[0] > 0 == moved[-1]


def test_dynamic_reparameterization(bench: Bench) -> None:
    hooks = DynamicReparameterization(bench.weights, 0.8, bench.generator, bench.optimizer, every=2, fraction=0.1)
    total = sum(weight.numel() for weight in bench.weights.values())
    active = total - sum(round(0.8 * weight.numel()) for weight in bench.weights.values())
    moved, sizes = [], []
    for _ in range(40):
        before = {name: mask.clone() for name, mask in hooks.masks.items()}
        bench.train(hooks, 2)
        moved.append(hooks.moved)
        sizes.append([int(mask.sum()) for mask in hooks.masks.values()])
        assert sum(sizes[-1]) == active  # as many weights return as are pruned
        grown = sum(int((hooks.masks[name] & ~before[name]).sum()) for name in before)
        assert grown <= hooks.moved
    # The threshold prunes the requested number within a factor of about two.
    assert 0.3 * 0.1 * active < sum(moved[-10:]) / 10 < 3 * 0.1 * active
    assert len({tuple(each) for each in sizes}) > 1  # Tensors exchange weights.
    assert bench.zeros >= hooks.sparsity - 1e-6


def test_threshold_adapts() -> None:
    for start, later in ((0.5, 0.25), (1e-12, 2e-12)):  # one threshold too high, one too low
        fresh = Bench()
        hooks = DynamicReparameterization(
            fresh.weights, 0.5, fresh.generator, fresh.optimizer, every=1, fraction=0.01, threshold=start
        )
        fresh.train(hooks, 1)
        assert hooks.threshold == later


def test_any_memory_layout(bench: Bench) -> None:
    bench.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    methods = (
        SparseMomentum(bench.weights, 0.9, bench.generator, bench.optimizer, every=1, total_steps=100),
        DynamicReparameterization(bench.weights, 0.9, bench.generator, bench.optimizer, every=1, threshold=0.05),
    )
    for hooks in methods:
        bench.train(hooks, 3)
        assert hooks.sparsity == pytest.approx(0.9, abs=2e-3)


def test_invalid_arguments(bench: Bench) -> None:
    for sparsity in (-0.1, 1.0, "most"):
        with pytest.raises(ValueError, match="sparsity must be a number from 0 to below 1, not"):
            StaticSparsity(bench.weights, sparsity, bench.generator)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="weights must hold at least one weight, not none"):
        StaticSparsity({}, 0.5, bench.generator)
    with pytest.raises(ValueError, match="prune_rate must be a number from 0 to 1, not 2"):
        SparseMomentum(bench.weights, 0.5, bench.generator, bench.optimizer, every=1, total_steps=1, prune_rate=2)
    with pytest.raises(ValueError, match="fraction must be a number between 0 and 1, not 0"):
        DynamicReparameterization(bench.weights, 0.5, bench.generator, bench.optimizer, every=1, fraction=0)
    with pytest.raises(ValueError, match="every must be an integer of at least 1, not 0"):
        DynamicReparameterization(bench.weights, 0.5, bench.generator, bench.optimizer, every=0)
    plain = torch.optim.SGD(bench.model.parameters(), lr=0.1)
    hooks = SparseMomentum(bench.weights, 0.5, bench.generator, plain, every=1, total_steps=9)
    bench.optimizer = plain
    with pytest.raises(ValueError, match="the optimizer must keep a momentum"):
        bench.train(hooks, 1)


@pytest.mark.parametrize("method", ["sparse-momentum", "dynamic-reparameterization"])
def test_resnet_stays_sparse(method: str) -> None:
    run = load("resnet50-sparse", "tiny", 0, method=method, every=1)
    hooks = run.hooks
    assert isinstance(hooks, StaticSparsity)
    before = {name: mask.clone() for name, mask in hooks.masks.items()}
    for _ in range(2):
        run.step()
        assert hooks.sparsity == pytest.approx(0.9, abs=2e-3)
        zeros = torch.cat([weight.detach().flatten() == 0 for weight in hooks.weights.values()]).float().mean()
        assert float(zeros) >= hooks.sparsity - 1e-6
    assert any((hooks.masks[name] & ~before[name]).any() for name in before)


def test_gpt_dense_and_sparse_see_the_same_data() -> None:
    sparse, dense = load("gpt", "tiny", 2), load("gpt", "tiny", 2, sparsity=0.0)
    assert torch.equal(next(sparse.batches), next(dense.batches))
    assert isinstance(sparse.hooks, StaticSparsity)
    for name, weight in sparse.hooks.weights.items():
        assert torch.equal(weight, dense.model.get_parameter(name) * sparse.hooks.masks[name])
    dense.step()
    assert not any((weight == 0).any() for weight in dense.hooks.weights.values())  # type: ignore[union-attr]


def test_gpt_mask_is_static() -> None:
    """Masked weights stay zero and others nonzero, despite AdamW's moments and weight decay."""
    run = load("gpt", "tiny", 2)
    assert isinstance(run.hooks, StaticSparsity)
    linear = {name for name, layer in run.model.named_modules() if isinstance(layer, nn.Linear)}
    assert {name.removesuffix(".weight") for name in run.hooks.weights} == linear
    drawn = {name: mask.clone() for name, mask in run.hooks.masks.items()}
    for _ in range(5):
        run.step()
        for name, weight in run.hooks.weights.items():
            assert torch.equal(weight != 0, drawn[name])
            assert round(float((weight == 0).float().mean()), 3) == 0.875
            assert not run.optimizer.state[weight]["exp_avg"][~drawn[name]].any()


def matrices(bench: Bench) -> dict[str, nn.Parameter]:
    return {"4.weight": bench.weights["4.weight"]}


def blocks_of(mask: torch.Tensor) -> torch.Tensor:
    """Return each 4x4 block's number of unmasked weights."""
    rows, columns = mask.shape
    return mask.view(rows // 4, 4, columns // 4, 4).sum((1, 3))


def test_static_blocks(bench: Bench) -> None:
    (mask,) = StaticSparsity(matrices(bench), 0.875, bench.generator, block=4).masks.values()
    assert sorted(blocks_of(mask).unique().tolist()) == [0, 16]
    assert int(mask.sum()) == mask.numel() // 8


@pytest.mark.parametrize("block", [1, 4])
def test_rigged_lottery(bench: Bench, block: int) -> None:
    """Only the wanted steps change masks. The smallest weights leave, and those with the largest gradients return."""
    weights = matrices(bench) if block > 1 else bench.weights
    hooks = RiggedLottery(weights, 0.75, bench.generator, every=3, last_step=8, block=block, prune_rate=0.5)
    unmasked = sum(int(mask.sum()) for mask in hooks.masks.values())
    changed = []
    for step in range(1, 13):
        before = {name: mask.clone() for name, mask in hooks.masks.items()}
        bench.train(hooks, 1)
        if any(not torch.equal(before[name], mask) for name, mask in hooks.masks.items()):
            changed.append(step)
        for name, weight in weights.items():
            assert not weight[~hooks.masks[name]].any()
            assert not weight[hooks.masks[name] & ~before[name]].any()  # Weights regrow at zero.
        assert sum(int(mask.sum()) for mask in hooks.masks.values()) == unmasked
        if block > 1:
            assert sorted(blocks_of(hooks.masks["4.weight"]).unique().tolist()) == [0, 16]
    assert changed == [3, 6]
    assert hooks.dense_steps == 2


def test_rigged_lottery_follows_gradients() -> None:
    """Of 8 weights, the smallest of 4 leaves, and the masked one with the largest gradient returns."""
    weight = nn.Parameter(torch.arange(1.0, 9.0)[None])
    hooks = RiggedLottery({"w": weight}, 0.5, torch.Generator().manual_seed(0), every=1, last_step=9, prune_rate=0.3)
    places = hooks.masks["w"][0].nonzero()[:, 0].tolist()
    masked = sorted(set(range(8)) - set(places))
    weight.grad = torch.zeros(1, 8)
    weight.grad[0, masked[2]] = -5
    weight.grad[0, places[0]] = 9  # An unmasked weight's gradient does not count.
    hooks.before_update()
    assert weight.grad[0, masked].tolist() == [0, 0, 0, 0]
    hooks.after_update()
    assert hooks.masks["w"][0].nonzero()[:, 0].tolist() == sorted([*places[1:], masked[2]])


def test_illegal_blocks_and_rates(bench: Bench) -> None:
    with pytest.raises(ValueError, match="block must divide both extents of a matrix, not be 4 for 0.weight"):
        StaticSparsity(bench.weights, 0.5, bench.generator, block=4)
    with pytest.raises(ValueError, match="block must divide both extents of a matrix, not be 3 for 4.weight"):
        StaticSparsity(matrices(bench), 0.5, bench.generator, block=3)
    with pytest.raises(ValueError, match="prune_rate must be a number from 0 to 1, not 2"):
        RiggedLottery(bench.weights, 0.5, bench.generator, every=1, last_step=1, prune_rate=2)
