"""Train a task on a device and in plain PyTorch, for `tensordash train`. Needs torch."""

import copy
import io
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler

from tensordash.configuration.parameters import require_choice
from tensordash_storage.files import atomic_path

from .device import Device
from .dispatch import Watcher, offload
from .errors import DeviceError
from .run import Run
from .tasks import Task

__all__ = ["REFERENCES", "Step", "Trainer"]

CHECKPOINT = "checkpoint.pt"
AUTOCAST = {"float16": torch.float16, "bfloat16": torch.bfloat16}
"""Types of PyTorch's autocast, by the device's type. For other types, tensors stay float32 and the device rounds."""
REFERENCES = ("float32", "autocast")
INITIAL_SCALE = 2.0**10
"""Initial scale of the loss. It keeps small gradients in the range of fp16."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One training step.

    Attributes
    ----------
    loss, plain_loss : float
        Losses on the device, and in plain PyTorch.
    cycles, dense_cycles : int
        Cycles of the core and of the dense core.
    tile_cycles, dense_tile_cycles : int
        Cycles of their tiles without stalls.
    zeros : float
        Share of zeros on the row side, weighted by multiplications.
    """

    loss: float
    plain_loss: float
    cycles: int
    dense_cycles: int
    tile_cycles: int
    dense_tile_cycles: int
    zeros: float


@dataclass
class Trainer:
    """Training of a task on a device with FP32 master weights, and of a copy in plain PyTorch.

    Both passes use fp16 with loss scaling on an fp16 device, and bf16 on a bf16 device. On other devices, tensors are
    float32, and the device rounds them. PyTorch computes biases, normalization and the optimizer.

    Parameters
    ----------
    task : Task
        The task.
    device : Device
        The device.
    settings : dict
        Settings of the run. A checkpoint with other settings is an error.
    folder : Path, optional
        Folder of the checkpoint, which `train` writes after each epoch and at its end.
    watcher : callable, optional
        As in `offload`.
    reference : str
        Type in plain PyTorch: "float32", or "autocast" to the device's type, with loss scaling for fp16.
    count : bool
        As in `offload`. If false, steps have no cycles.

    Raises
    ------
    ValueError
        If PyTorch's autocast lacks the device's type.

    Attributes
    ----------
    history : list of Step
        Every step so far.
    accuracies : list of (int, float, float)
        Number of steps, and accuracies of both models, after each epoch. PyTorch measures accuracies in float32.
    """

    task: Task
    device: Device
    settings: dict[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    watcher: Watcher | None = None
    reference: str = REFERENCES[0]
    count: bool = True
    history: list[Step] = field(default_factory=list)
    accuracies: list[tuple[int, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.model, self.plain = self.task.model, copy.deepcopy(self.task.model)
        self._optimizers = [self.task.optimizer(model.parameters()) for model in (self.model, self.plain)]
        self._type = AUTOCAST.get(self.device.types[0])
        if require_choice("reference", self.reference, REFERENCES) == "autocast" and self._type is None:
            raise ValueError(f"reference must be float32 for {self.device.types[0]}, which autocast lacks")
        kinds = self._type, self._type if self.reference == "autocast" else None
        self._scalers = [GradScaler("cpu", init_scale=INITIAL_SCALE, enabled=kind is torch.float16) for kind in kinds]

    def train(self, steps: int, on_step: Callable[[Step], None] = lambda step: None) -> Run:
        """Train until `steps` steps are done, including the steps of a checkpoint.

        Parameters
        ----------
        steps : int
            Total number of steps.
        on_step : callable, optional
            Called after each step.

        Returns
        -------
        Run
            The steps of this call.

        Raises
        ------
        DeviceError
            If PyTorch cannot run the reference with autocast on this processor.
        """
        run = Run(self.device)
        run.steps = len(self.history)
        while len(self.history) < steps:
            epoch, done = divmod(len(self.history), self.task.steps_per_epoch)
            for index, batch in enumerate(self.task.order(epoch)):
                if index < done:
                    continue
                self.history.append(self._step(run, batch))
                on_step(self.history[-1])
                if len(self.history) == steps:
                    break
            if len(self.history) % self.task.steps_per_epoch == 0 or len(self.history) == steps:
                on_device, plain = map(self.task.accuracy, self._models)
                self.accuracies.append((len(self.history), on_device, plain))
                self.save()
        return run

    def _step(self, run: Run, batch: Any) -> Step:
        with offload(
            self.device, model=self.model, strict=True, flush_limit=1.0, watcher=self.watcher, run=run, count=self.count
        ):
            before = len(run.contractions)
            loss = self._update(0, batch, self._type)
        plain_loss = self._update(1, batch, self._type if self.reference == "autocast" else None)
        totals = run.totals(run.contractions[before:])
        return Step(
            loss=loss.item(),
            plain_loss=plain_loss.item(),
            cycles=totals.cycles,
            dense_cycles=totals.dense_cycles,
            tile_cycles=totals.tile_cycles,
            dense_tile_cycles=totals.dense_tile_cycles,
            zeros=totals.zeros,
        )

    def _update(self, index: int, batch: Any, kind: torch.dtype | None) -> torch.Tensor:
        """Train the device's model (0) or the plain model (1) on a batch, with autocast to `kind` unless it is None."""
        optimizer, scaler = self._optimizers[index], self._scalers[index]
        try:
            with torch.autocast("cpu", kind or torch.bfloat16, enabled=kind is not None):
                loss = self.task.loss(self._models[index], batch)
        except RuntimeError as error:
            if "could not create a primitive" not in str(error):
                raise
            raise DeviceError(
                f"reference must be float32: PyTorch has no kernel in {kind} for this network on this processor"
            ) from error
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    # Checkpoints

    def save(self) -> None:
        """Write a checkpoint atomically, if the trainer has a folder.

        Raises
        ------
        OSError
            If the checkpoint cannot be written. The last checkpoint stays.
        """
        if self.folder is None:
            return
        state = {
            "settings": self.settings,
            "models": [model.state_dict() for model in self._models],
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
            "scalers": [scaler.state_dict() for scaler in self._scalers],
            "operations": self.device.operations,
            "history": [asdict(step) for step in self.history],
            "accuracies": self.accuracies,
        }
        content = io.BytesIO()
        torch.save(state, content)  # Into a file, torch.save would not report a full disk.
        with atomic_path(self.folder / CHECKPOINT) as place:
            place.write_bytes(content.getbuffer())

    def resume(self) -> bool:
        """Load the folder's checkpoint, and return whether one exists.

        Raises
        ------
        DeviceError
            If the checkpoint cannot be read, or has other settings.
        """
        path = None if self.folder is None else self.folder / CHECKPOINT
        if path is None or not path.exists():
            return False
        try:
            state = torch.load(path, weights_only=True)
            settings = state["settings"]
        except Exception as error:
            raise DeviceError(f"{path} cannot be read as a checkpoint: {error}") from None
        for name, value in self.settings.items():
            if settings.get(name) != value:
                raise DeviceError(f"{path} has {name} = {settings.get(name)}, not {value}: use another folder")
        for model, weights in zip(self._models, state["models"], strict=True):
            model.load_state_dict(weights)
        for optimizer, saved in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        for scaler, saved in zip(self._scalers, state["scalers"], strict=True):
            scaler.load_state_dict(saved)
        self.device.operations = state.get("operations", 0)
        self.history = [Step(**step) for step in state["history"]]
        self.accuracies = [(step, on_device, plain) for step, on_device, plain in state["accuracies"]]
        return True

    @property
    def _models(self) -> tuple[nn.Module, nn.Module]:
        return self.model, self.plain
