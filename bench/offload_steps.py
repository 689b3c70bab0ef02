"""Time complete training steps under `offload` and in PyTorch, on one thread.

    python bench/offload_steps.py                          # print the table, and whether the goal is met
    python bench/offload_steps.py --page docs/runtime.md   # write the table into the page
    python bench/offload_steps.py --json

A step is forward pass, backward pass and optimizer. Three networks train on float32 tensors, on preset `core` with
backend `emulator`: exact sums of fp16 products. Each turn times PyTorch, a counted step and a step with `count=False`.
A figure is the fastest of `--repeats` turns. A warm-up turn before them compiles the emulator.
"""

import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numba
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from common import argument_parser, measured_at, print_json, render, replace_between
from tensordash_runtime import Device, offload
from tensordash_sim.networks.gpt import GPT, Shape

PRESET = "core"
BACKEND = "emulator"
GOAL = 50.0
"""Goal in millions of MACs per second of complete steps, with `count=False`."""
WARM_STEPS = 10
"""PyTorch steps in each turn. The first steps run slowly, because caches are full of the emulator's data."""
BEGIN = "<!-- offload steps -->"
END = "<!-- end of offload steps -->"
WORDS = 256
GPT_SHAPE = Shape(vocabulary=WORDS, layers=2, hidden=64, heads=4, length=32, batch=2)


class Block(nn.Module):
    """Two 3x3 convolutions, and a shortcut around them."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(channels, width, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output; the last ReLU follows the sum."""
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        total: Tensor = y + self.shortcut(x)
        return total.relu()


class ResNet(nn.Module):
    """A small residual network for images of 16x16."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.blocks = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2))
        self.head = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Return scores, (N, 10), of images, (N, 3, 16, 16)."""
        scores: Tensor = self.head(self.blocks(self.conv(images)).mean((2, 3)))
        return scores


class LSTM(nn.Module):
    """An LSTM layer between an embedding and scores of words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 64)
        self.lstm = nn.LSTM(64, 64, batch_first=True)
        self.head = nn.Linear(64, WORDS)

    def forward(self, words: Tensor) -> Tensor:
        """Return scores, (N, length, WORDS)."""
        scores: Tensor = self.head(self.lstm(self.words(words))[0])
        return scores


class Task(NamedTuple):
    """A network, its batch and its optimizer."""

    model: nn.Module
    inputs: Tensor
    targets: Tensor
    optimizer: torch.optim.Optimizer

    def step(self) -> float:
        """Take one training step; return the loss."""
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(self.inputs).flatten(0, -2), self.targets.flatten())
        loss.backward()
        self.optimizer.step()
        return loss.item()


def resnet() -> Task:
    """Return the task of classifying 3 images."""
    model = ResNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return Task(model, torch.randn(3, 3, 16, 16), torch.randint(10, (3,)), optimizer)


def gpt() -> Task:
    """Return the task of predicting words with a transformer: 2 texts of 32 words."""
    words = torch.randint(WORDS, (GPT_SHAPE.batch, GPT_SHAPE.length + 1))
    model = GPT(GPT_SHAPE)
    return Task(model, words[:, :-1], words[:, 1:], torch.optim.AdamW(model.parameters(), lr=1e-3))


def lstm() -> Task:
    """Return the task of predicting words with an LSTM: 4 texts of 40 words."""
    words = torch.randint(WORDS, (4, 41))
    model = LSTM()
    return Task(model, words[:, :-1], words[:, 1:], torch.optim.Adam(model.parameters(), lr=1e-3))


NETWORKS: dict[str, tuple[str, Callable[[], Task]]] = {
    "resnet": ("ResNet-like, 3 images of 16x16", resnet),
    "gpt": ("GPT, 2 blocks of width 64, 2 texts of 32", gpt),
    "lstm": ("LSTM of width 64, 4 texts of 40", lstm),
}


class Figures(NamedTuple):
    """Figures of one network: MACs of a step; seconds of a step in PyTorch, counted, and with `count=False`."""

    network: str
    macs: int
    pytorch: float
    counted: float
    uncounted: float

    @property
    def rate(self) -> float:
        """Return millions of MACs per second with `count=False`."""
        return self.macs / self.uncounted / 1e6


def build(network: str, seed: int) -> Task:
    """Return a network's task; the seed determines weights and data."""
    torch.manual_seed(seed)
    return NETWORKS[network][1]()


def step_macs(network: str, seed: int) -> int:
    """Return the MACs of a step; exit if some of them did not run on the device."""
    with Device(PRESET, BACKEND) as device, offload(device, count=False) as run:
        build(network, seed).step()
    if run.missed:
        raise SystemExit(f"{network}: {run.missed[0]}")
    return sum(each.macs for each in run.contractions)


def time_step(task: Task, device: Device | None, *, count: bool = False) -> float:
    """Return the seconds of a step, in PyTorch if there is no device."""
    with nullcontext() if device is None else offload(device, count=count):
        began = time.perf_counter()
        task.step()
        return time.perf_counter() - began


def measure(network: str, repeats: int, seed: int) -> Figures:
    """Return the figures of one network. The three kinds of steps alternate, because other processes may be running."""
    tasks = [build(network, seed) for _ in range(3)]
    times: list[list[float]] = []
    with Device(PRESET, BACKEND) as device:
        for _ in range(repeats + 1):
            plain, counted, uncounted = tasks
            pytorch = min(time_step(plain, None) for _ in range(WARM_STEPS))
            times.append([pytorch, time_step(counted, device, count=True), time_step(uncounted, device)])
    return Figures(network, step_macs(network, seed), *map(min, zip(*times[1:], strict=True)))


def table(found: list[Figures]) -> str:
    """Return the table as Markdown."""
    return render("offload_steps", networks=NETWORKS, figures=found)


def write_page(page: Path, text: str) -> None:
    """Replace the text between the page's markers."""
    page.write_text(replace_between(page.read_text(encoding="utf-8"), BEGIN, END, text), encoding="utf-8")


def main() -> int:
    """Print or write the table; exit with 1 if the goal is missed."""
    parser = argument_parser(__doc__)
    parser.add_argument(
        "networks", metavar="NETWORK", nargs="*", help=f"networks, of {', '.join(NETWORKS)} (default: all)"
    )
    parser.add_argument("--repeats", type=int, default=20, help="times to measure each step (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and data (default: 0)")
    parser.add_argument("--page", type=Path, help="write the table between this page's markers")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    arguments = parser.parse_args()
    chosen = arguments.networks or list(NETWORKS)
    if wrong := [name for name in chosen if name not in NETWORKS]:
        parser.error(f"NETWORK must be one of {', '.join(NETWORKS)}, not {wrong[0]}")
    if arguments.repeats < 1:
        parser.error(f"--repeats must be at least 1, not {arguments.repeats}")
    page = arguments.page
    if page is not None and chosen != list(NETWORKS):
        parser.error("--page must be left out unless all networks are measured")
    if page is not None and not (page.is_file() and END in page.read_text(encoding="utf-8").partition(BEGIN)[2]):
        parser.error(f"--page must be a file with the markers {BEGIN} and {END}, not {page}")
    numba.set_num_threads(1)
    torch.set_num_threads(1)
    with threadpool_limits(1):
        found = [measure(name, arguments.repeats, arguments.seed) for name in chosen]
    met = all(each.rate >= GOAL for each in found)
    if page is not None:
        write_page(page, table(found) + "\n\nMeasured at commit {commit}, {date}.".format(**measured_at()))
    if arguments.json:
        networks: list[dict[str, Any]] = [
            each._asdict() | {"mega_macs_per_second": each.rate, "slowdown": each.uncounted / each.pytorch}
            for each in found
        ]
        print_json({"networks": networks, "goal": GOAL, "met": met})
    else:
        print(f"{table(found)}\n\ngoal, at least {GOAL:.0f} M MAC/s with count=False: {'met' if met else 'missed'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
