"""Compare training steps as program folders with the golden core and PyTorch, and test their errors."""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tensordash.configuration.core_config import CoreConfig
from tensordash_runtime import ProgramFolderError, compile_step
from tensordash_runtime.program_folder.execution import Executor, read_tensor, run_plan, write_tensor
from tensordash_runtime.program_folder.folder import ProgramFolder, run_folder
from tensordash_runtime.program_folder.plan import HostCall
from tensordash_runtime.program_folder.steps import compute_checksums, read_batches
from tensordash_sim.compiler.order import find_races
from tensordash_sim.golden.core.effects import read_memory

from .host_calls_in_c import require_equal
from .loaded_memory import check_on_golden_core, load_memory

SAMPLES, CLASSES = 5, 3


def network() -> nn.Module:
    """Return a small network with every operation that a folder can have."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 5, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(5, 6, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(24, 7),
        nn.ReLU(),
        nn.Linear(7, CLASSES),
    )


def batch(seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    images = torch.rand(SAMPLES, 1, 6, 6, generator=random) * (torch.rand(SAMPLES, 1, 6, 6, generator=random) < 0.5)
    return images, torch.randint(CLASSES, (SAMPLES,), generator=random)


def sgd(model: nn.Module, **settings: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), **{"lr": 0.125, "momentum": 0.5, "weight_decay": 0.01, **settings})


def values(folder: ProgramFolder, name: str) -> np.ndarray:
    tensor = folder.plan.tensors[name]
    return tensor.numbers(tensor.from_bytes(folder.expected_bytes(name), folder.plan.config))


@pytest.fixture(scope="module")
def folder() -> ProgramFolder:
    model = network()
    return compile_step(model, F.cross_entropy, sgd(model), batch())


def test_products_share_programs(folder: ProgramFolder) -> None:
    """Host calls divide the products into programs only where a product needs their results."""
    programs = [[product.name for product in stage] for stage in folder.plan.stages if isinstance(stage, list)]
    assert programs == [
        ["0 AxW", "2 AxW"],
        ["6 AxW", "8 AxW"],
        ["8 AxG", "8 WxG", "6 AxG", "6 WxG"],
        ["2 AxG", "2 WxG", "0 AxG"],
    ]
    products = {product.name: product for stage in folder.plan.stages if isinstance(stage, list) for product in stage}
    assert {name for name, product in products.items() if "mask" in product.tensors} == {"8 WxG", "2 WxG"}
    assert {name for name, product in products.items() if product.relu} == {"0 AxW", "2 AxW", "6 AxW"}
    assert all(product.fp32 == name.endswith("AxG") for name, product in products.items() if name != "8 AxW")
    assert products["8 AxW"].fp32


def test_tensors_stay_in_the_buffer(folder: ProgramFolder) -> None:
    """A program loads shared operands once and none of its own results. No token is missing."""
    config, places = folder.plan.config, folder.memory_map.tensors
    stages = [stage for stage in folder.plan.stages if isinstance(stage, list)]
    for k, products in enumerate(stages):
        program = folder.descriptors(k)
        assert find_races(config, program) == []
        loaded = dict.fromkeys(places, 0)
        for bits in program:
            for address, count in read_memory(bits, config):
                loaded[next(name for name, each in places.items() if each.address <= address < each.end)] += count
        written = {name for product in products for name in product.written}
        read = {name for product in products for name in product.read}
        assert {name for name, count in loaded.items() if count} == read - written
        shared = [name for name in read if sum(name in product.read for product in products) > 1]
        assert all(loaded[name] <= places[name].bytes for name in shared)


def test_golden_core_leaves_the_expected_memory(folder: ProgramFolder) -> None:
    check_on_golden_core(folder)


def test_values_match_pytorch(folder: ProgramFolder) -> None:
    """Values differ from PyTorch's only by rounding to fp16."""
    model = network()
    optimizer = sgd(model)
    images, labels = batch()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    assert values(folder, "loss")[0] == pytest.approx(loss.item(), abs=2e-3)
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(values(folder, name), parameter.detach().numpy(), atol=5e-4)
        velocity = optimizer.state[parameter]["momentum_buffer"]
        np.testing.assert_allclose(values(folder, f"{name}.velocity"), velocity.numpy(), atol=4e-3)


def require_same_loss(
    folder: ProgramFolder,
    memory: Executor,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    images: Tensor,
    labels: Tensor,
    *,
    tolerance: float,
) -> None:
    """Run a step of the folder and of PyTorch, and compare their losses."""
    run_plan(memory, folder.plan, folder.memory_map)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    bits = read_tensor(memory, folder.plan, folder.memory_map, "loss")
    assert bits.view(np.float32)[0] == pytest.approx(loss.item(), abs=tolerance)


def test_consecutive_steps(folder: ProgramFolder) -> None:
    """Each step starts from the parameters of the step before."""
    model = network()
    optimizer = sgd(model)
    memory = load_memory(folder, "emulator")
    for step in range(3):
        images, labels = batch(step)
        for name, numbers in (("input", images), ("target", labels.to(torch.int32))):
            bits = folder.plan.tensors[name].bits(numbers.numpy())
            write_tensor(memory, folder.plan, folder.memory_map, name, bits)
        require_same_loss(folder, memory, model, optimizer, images, labels, tolerance=3e-3)


def test_checksums_of_steps(folder: ProgramFolder, tmp_path: Path) -> None:
    """Checksums equal the golden core's, use a file's batches in turn, and differ between steps."""
    images = [batch(step) for step in range(2)]
    arrays: dict[str, Any] = {
        "input": np.stack([x.numpy() for x, _ in images]),
        "target": np.stack([y.numpy() for _, y in images]),
    }
    np.savez(tmp_path / "batches.npz", **arrays)
    batches = read_batches(folder, tmp_path / "batches.npz")
    memory, places = load_memory(folder, "golden"), folder.memory_map
    found = compute_checksums(folder, 3, batches)
    for step in range(3):
        for name in ("input", "target"):
            bits = folder.plan.tensors[name].bits(arrays[name][step % 2].astype("f4" if name == "input" else "i4"))
            write_tensor(memory, folder.plan, places, name, bits)
        run_plan(memory, folder.plan, places)
        regions = [places.tensors[name] for name in folder.plan.tensors]
        assert found[step].tolist() == [zlib.crc32(memory.read(each.address, each.bytes)) for each in regions]
    loss = list(folder.plan.tensors).index("loss")
    assert len(set(found[:, loss].tolist())) == 3


LABEL = np.zeros((2, SAMPLES), np.int64)
LABEL[1, 2] = 1
SECOND = np.zeros((2, SAMPLES, 1, 6, 6))
SECOND[1] = 1
BATCHES = {"input": SECOND, "target": LABEL}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"input": np.zeros((1, 2), np.float32)}, "input in .* must have floating-point numbers of shape"),
        ({"target": np.zeros((1, 2), np.int64)}, "must have an array 'input', not target"),
        ({}, "must have an array 'input', not none"),
        (BATCHES | {"input": SECOND[:0]}, r"input in .* must have at least one batch, not shape \(0, "),
        (BATCHES | {"input": np.where(SECOND, np.nan, 0)}, "batch 1, must have numbers .* finite .*, not nan"),
        (BATCHES | {"input": SECOND * -1e300}, "batch 1, must have numbers that are finite in .*, not -1e[+]300"),
        *(
            (BATCHES | {"target": LABEL * value}, f"target in .*, batch 1, must have integers from 0 to 2, not {value}")
            for value in (CLASSES, -1, 1 << 40)
        ),
        (b"text", "must be an archive of numpy.savez with plain arrays"),
        (b"", "must be an archive of numpy.savez with plain arrays"),
        (b"PK", "must be an archive of numpy.savez with plain arrays"),
        (None, "cannot read .*: No such file"),
    ],
)
def test_batches_are_checked(arrays: Any, message: str, folder: ProgramFolder, tmp_path: Path) -> None:
    path = tmp_path / "batches.npz"
    if isinstance(arrays, bytes):
        path.write_bytes(arrays)
    elif arrays is not None:
        np.savez(path, **arrays)
    with pytest.raises(ProgramFolderError, match=message):
        read_batches(folder, path)


def test_batches_have_one_length(folder: ProgramFolder, tmp_path: Path) -> None:
    images, labels = batch(0)
    np.savez(tmp_path / "batches.npz", input=images.numpy()[None], target=np.stack([labels.numpy()] * 2))
    with pytest.raises(ProgramFolderError, match="same number of batches, not {'input': 1, 'target': 2}"):
        read_batches(folder, tmp_path / "batches.npz")


RESHAPED: dict[str, Callable[[], list[nn.Module]]] = {
    "relu": lambda: [nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(144, CLASSES)],
    "strided": lambda: [
        *(nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(4, 5, 3, stride=2, padding=1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(20, CLASSES)),
    ],
    "one dimension": lambda: [
        *(nn.Flatten(2), nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Conv1d(4, 5, 3), nn.MaxPool1d(2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(80, CLASSES)),
    ],
    "batch norm": lambda: [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, CLASSES)],
    "max pool": lambda: [nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(16, CLASSES)],
    "flatten": lambda: [nn.Conv2d(1, 4, 3), nn.Flatten(), nn.ReLU(), nn.Linear(64, CLASSES)],
    "layer norm": lambda: [nn.Conv2d(1, 4, 3), nn.LayerNorm([4, 4, 4]), nn.Flatten(), nn.Linear(64, CLASSES)],
    "rows": lambda: [nn.Linear(6, 5), nn.ReLU(), nn.Flatten(), nn.Linear(30, CLASSES)],
    "unflatten": lambda: [
        *(nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, CLASSES, 4)),
        *(nn.ReLU(), nn.Flatten()),
    ],
    "groups": lambda: [
        *(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 1, groups=4, bias=False), nn.ReLU()),
        *(nn.Conv2d(4, 16, 3, groups=2), nn.ReLU(), nn.Flatten(), nn.Linear(64, CLASSES)),
    ],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layers", RESHAPED)
def test_layers_with_reshaped_operands(layers: str, tmp_path: Path) -> None:
    """A ReLU, its product and normalization may have other shapes. Two steps have PyTorch's losses."""
    torch.manual_seed(0)
    model = nn.Sequential(*RESHAPED[layers]())
    optimizer = sgd(model)
    images, labels = batch()
    folder = compile_step(model, F.cross_entropy, optimizer, (images, labels))
    assert run_folder(folder, "golden")[1] == ""
    require_equal(folder, tmp_path)
    memory = load_memory(folder, "emulator")
    for _ in range(2):
        require_same_loss(folder, memory, model, optimizer, images, labels, tolerance=1e-3)


def test_row_side_follows_zeros_of_the_example(folder: ProgramFolder) -> None:
    """Half of the images' values are zeros; none of the first layer's weights is zero."""
    first = next(stage for stage in folder.plan.stages if isinstance(stage, list))[0]
    assert first.rows == "A"
    assert first.speedup > 1


def test_unfused_relu() -> None:
    """For a core without ReLU and masks, the host computes them."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 7), nn.ReLU(), nn.Linear(7, CLASSES))
    config = CoreConfig(relu=False, mask=False)
    folder = compile_step(model, F.cross_entropy, sgd(model), batch(), preset=config)
    calls = [stage.function for stage in folder.plan.stages if isinstance(stage, HostCall)]
    assert calls.count("relu") == calls.count("relu_backward") == 1
    check_on_golden_core(folder)


@pytest.mark.parametrize("keeps_size", [True, False], ids=["keeps", "reduces"])
def test_means_without_kept_dimensions(keeps_size: bool) -> None:
    """If a plane has one pixel, its gradient is not repeated."""

    class PlaneMean(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.mean(dim=(2, 3))

    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 5, 3 if keeps_size else 6), PlaneMean(), nn.Linear(5, CLASSES))
    optimizer = sgd(model)
    folder = compile_step(model, F.cross_entropy, optimizer, batch())
    images, labels = batch()
    F.cross_entropy(model(images), labels).backward()
    optimizer.step()
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(values(folder, name), parameter.detach().numpy(), atol=5e-4)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_training_continues_after_an_overflow(kind: type[torch.optim.SGD | torch.optim.AdamW]) -> None:
    """The first loss scale overflows, so the step is skipped. The next scale does not overflow."""
    model = linear()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100, backoff_factor=2.0**-90)
    folder = compile_step(model, F.cross_entropy, kind(model.parameters(), lr=0.125), batch(), loss_scale=scaler)
    memory = load_memory(folder, "emulator")
    names = [name for name, _ in model.named_parameters()]
    before = [read_tensor(memory, folder.plan, folder.memory_map, name).copy() for name in names]
    for is_skipped in (True, False):
        run_plan(memory, folder.plan, folder.memory_map)
        after = [read_tensor(memory, folder.plan, folder.memory_map, name) for name in names]
        assert [np.array_equal(old, new) for old, new in zip(before, after, strict=True)] == [is_skipped] * len(names)


# Errors


def linear(*after: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(36, CLASSES), *after)


class Plus(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


class Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


class Times(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.tensor(2.0)


class Repeated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = linear()

    def forward(self, x: Tensor) -> Any:
        return self.linear(x @ x)


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(36, 36), nn.Linear(36, 36)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Any:
        return self.second(self.first(x.flatten(1)))


def scaled_loss(scores: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(scores, labels) * 2


def summed_loss(scores: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(scores, labels, reduction="sum")


@pytest.mark.parametrize(
    ("model", "loss", "message"),
    [
        (
            lambda: linear(nn.Sigmoid()),
            F.cross_entropy,
            r"^aten.sigmoid.default must be an operation .* computes \(after layer 1\); see docs/[\w.#-]+$",
        ),
        (
            lambda: linear(nn.BatchNorm1d(CLASSES)).eval(),
            F.cross_entropy,
            "batch_norm.* must be an operation that",
        ),
        (lambda: linear(nn.BatchNorm1d(CLASSES, affine=False)), F.cross_entropy, "must have weights and biases"),
        (
            lambda: linear(nn.LayerNorm(CLASSES, elementwise_affine=False)),
            F.cross_entropy,
            "layer_norm.* must have",
        ),
        (lambda: linear(nn.GELU("tanh")), F.cross_entropy, "aten.gelu.default must not be approximated by tanh"),
        (lambda: linear(Plus()), F.cross_entropy, "aten.add.Tensor must add two values, without alpha"),
        (lambda: linear(nn.Unflatten(1, (1, 3)), Mean()), F.cross_entropy, "aten.mean.dim must be over the last dim"),
        (lambda: nn.Sequential(Times(), linear()), F.cross_entropy, "forward must not create constant tensors"),
        (Repeated, F.cross_entropy, "aten.view.default must have operands that are neither transposed nor repeated"),
        (Shared, F.cross_entropy, "second.weight must not also be the parameter of another layer"),
        (
            lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 3, groups=4), nn.Flatten(), nn.Linear(16, 3)),
            F.cross_entropy,
            "1.bias must have a multiple of 8 values for each of 4 groups, not 1; a layer with bias=False",
        ),
        (linear, scaled_loss, "aten.mul.Tensor must be an operation that core or host computes"),
        (linear, nn.CrossEntropyLoss(label_smoothing=0.1), "log_softmax must be only for .* without label_smoothing"),
        (linear, nn.CrossEntropyLoss(ignore_index=2), "loss must have no class as ignore_index, not 2"),
        (linear, summed_loss, "aten.nll_loss_forward.default must be the mean cross entropy"),
        (lambda: linear().double(), F.cross_entropy, "1.weight must be float32, not float64"),
    ],
    ids=[
        *("operation", "eval", "batch", "layer", "tanh", "add", "mean", "constant", "repeated", "shared", "groups"),
        *("loss", "smoothing", "ignored", "reduction", "type"),
    ],
)
def test_unsupported_models(model: Callable[[], nn.Module], loss: Any, message: str) -> None:
    network = model()
    images, labels = batch()
    images = images.double() if "float64" in message else images
    with pytest.raises(ProgramFolderError, match=message):
        compile_step(network, loss, sgd(network), (images, labels))


def used(optimizer: torch.optim.Optimizer, model: nn.Module) -> torch.optim.Optimizer:
    images, labels = batch()
    F.cross_entropy(model(images), labels).backward()
    optimizer.step()
    return optimizer


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (lambda model: torch.optim.Adam(model.parameters()), "optimizer must be torch.optim.SGD or .*AdamW, not Adam"),
        (
            lambda model: torch.optim.AdamW(model.parameters(), amsgrad=True),
            "optimizer must have amsgrad = 0, not True",
        ),
        (lambda model: sgd(model, nesterov=True), "optimizer must have nesterov = 0, not True"),
        (lambda model: sgd(model, dampening=0.5), "optimizer must have dampening = 0, not 0.5"),
        (
            lambda model: torch.optim.SGD([{"params": [each]} for each in model.parameters()], lr=0.1),
            "optimizer must have one group of parameters, not 2",
        ),
        (
            lambda _: sgd(nn.Linear(4, 2)),
            r"optimizer must have parameters of the model only, not its parameter 0 of shape \(2, 4\)",
        ),
        (
            lambda model: torch.optim.SGD([model[1].bias], lr=0.1),
            "optimizer must have the parameter 1.weight, or its requires_grad must be False",
        ),
        (lambda model: used(sgd(model), model), "optimizer must be new, but it has state of 1.weight"),
        (
            lambda model: used(torch.optim.AdamW(model.parameters()), model),
            "optimizer must be new, but it has state of 1.weight",
        ),
    ],
    ids=["kind", "amsgrad", "nesterov", "dampening", "groups", "other", "part", "used sgd", "used adamw"],
)
def test_unsupported_optimizers(optimizer: Callable[[nn.Module], torch.optim.Optimizer], message: str) -> None:
    model = linear()
    with pytest.raises(ProgramFolderError, match=message):
        compile_step(model, F.cross_entropy, optimizer(model), batch())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss_scale": 3.0}, "loss_scale must be a power of two, not 3.0"),
        ({"loss_scale": 0.0}, "loss_scale must be a power of two, not 0.0"),
        (
            {"loss_scale": torch.amp.GradScaler("cpu", growth_factor=3.0)},
            "growth_factor must be a power of two",
        ),
        ({"preset": "paper"}, "preset must be a core's, not the tile paper"),
        ({"preset": CoreConfig(bias=False)}, "core.bias must be true for this model, not false"),
        ({"base": 64}, "memory.base must be a multiple of 4096, not 0x40"),
    ],
    ids=("loss scale 3", "loss scale 0", "growth factor", "tile", "no bias", "base"),
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    model = linear()
    with pytest.raises(ProgramFolderError, match=message):
        compile_step(model, F.cross_entropy, sgd(model), batch(), **settings)


def test_target_of_another_type() -> None:
    model = linear()
    images, labels = batch()
    with pytest.raises(ProgramFolderError, match="target must be int64 indices of classes, not float32"):
        compile_step(model, F.cross_entropy, sgd(model), (images, F.one_hot(labels, CLASSES).float()))


@pytest.mark.parametrize(("value", "found"), [(-100, "-100"), (CLASSES, "3"), (1 << 32, "2147483647")])
def test_target_is_no_class(value: int, found: str) -> None:
    """PyTorch ignores samples of class -100, and fails if the target is another number that is no class."""
    model = linear()
    images, labels = batch()
    labels[1] = value
    with pytest.raises(ProgramFolderError, match=f"target must have indices of classes from 0 to 2, not {found}"):
        compile_step(model, F.cross_entropy, sgd(model), (images, labels))
