"""A small trace with a convolution and a linear layer in two steps."""

from pathlib import Path

import numpy as np
import pytest

from tensordash_sim.lowering import Geometry, MatrixProduct
from tensordash_sim.trace import Flow, FlowTensor, StepWriter, TraceWriter, Update, Work

from ..lowering.geometries import convolution

CONVOLUTION = convolution(batch=2, channels=(3, 5), size=(7, 6), kernel=(3, 3), stride=(2, 1), padding=(1, 1))
LINEAR = MatrixProduct(batch=1, samples=3, in_features=11, out_features=4)
LAYERS: dict[str, Geometry] = {"conv1": CONVOLUTION, "fc": LINEAR}
OPERATIONS = ("AxW", "WxG", "AxG")
FLOW = Flow(
    tensors=(FlowTensor(shape=(3, 11), dtype="float32"), FlowTensor(shape=(3, 4), dtype="float32")),
    work=(Work(name="aten::mm", phase="forward", reads=(0,), writes=(1,), products=((3, {"A": 0}),)),),
    updates=(Update(parameter=0, gradient=1, states=2),),
)


def operands(seed: int) -> dict[str, dict[str, np.ndarray]]:
    """Draw values of every tensor of every layer, about half of them zero."""
    random = np.random.default_rng(seed)
    return {
        layer: {
            name: np.maximum(random.normal(size=shape), 0).astype(np.float32) for name, shape in geometry.shapes.items()
        }
        for layer, geometry in LAYERS.items()
    }


def record_layers(step: StepWriter, seed: int) -> None:
    for layer, tensors in operands(seed).items():
        for operation in OPERATIONS:
            step.record(layer, operation, LAYERS[layer], {name: tensors[name] for name in operation.split("x")})


def record_step(writer: TraceWriter, index: int, epoch: int | None = None) -> None:
    with writer.step(index, epoch) as step:
        record_layers(step, index)
        if index == 0:
            step.add_flow(FLOW)


def make_trace(path: Path, *, values: bool = True, overwrite: bool = False, steps: tuple[int, ...] = (0, 7)) -> Path:
    with TraceWriter(path, conditions={"model": "small"}, values=values, overwrite=overwrite) as writer:
        for index in steps:
            record_step(writer, index, epoch=index // 2)
    return path


@pytest.fixture(autouse=True)
def skip_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip `os.fsync`, which takes a tenth of a second on a busy disk."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return make_trace(tmp_path / "run.trace")
