"""Compare a training step of few programs with a step that has a program for each product, on the Verilog.

    python bench/step_programs.py           # print a summary
    python bench/step_programs.py --json
    python bench/step_programs.py --compile resnet18 --batch 2     # time and memory of compiling a large network
    python bench/step_programs.py --compile resnet18 --batch 2 --page    # and write them to docs/program-folder.md

Both steps have the same products, formats, fused operations and results. Cycles are the core's, without the host's
work between programs. Bytes count loads, stores and records.
"""

import resource
import sys
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from common import (
    DOCS,
    argument_parser,
    core_preset,
    load_figures,
    measured_at,
    print_json,
    render,
    replace_between,
    store_figures,
)
from tensordash_runtime.program_folder.compiling import compile_step, compile_task
from tensordash_runtime.program_folder.folder import ProgramFolder, build_folder, run_folder
from tensordash_runtime.program_folder.plan import HostCall, Plan, Product
from tensordash_sim.networks.resnet50 import ResNet50, Shape
from tensordash_storage.files import atomic_write

RESULTS = DOCS / "compile.json"
PAGE = DOCS / "program-folder.md"
MODELS = ("mlp", "digits")
IMAGE_SIZES = {"resnet18": 32, "resnet50": 224}
"""Networks that are only compiled, with the height and width of their images."""


class BasicBlock(nn.Module):
    """Two 3x3 convolutions, and a shortcut around them."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.downsample: nn.Module = nn.Sequential()
        if stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the ReLU of the sum of both branches."""
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (y + self.downsample(x)).relu()


def build_resnet18() -> nn.Module:
    """Return ResNet-18 as published (arXiv:1512.03385), with ten classes."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, padding=1))
    for channels, width in ((64, 64), (64, 128), (128, 256), (256, 512)):
        layers += [BasicBlock(channels, width, width // channels), BasicBlock(width, width, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def measure(folder: ProgramFolder) -> tuple[int, int]:
    """Run a folder on the Verilog; return its cycles and moved bytes.

    Raises
    ------
    ValueError
        If a value differs from the expected one.
    """
    cycles, difference = run_folder(folder, "verilator")
    if difference:
        raise ValueError(difference)
    return sum(each or 0 for each in cycles), sum(each["moved_bytes"] for each in folder.programs)


def separate_products(folder: ProgramFolder) -> list[ProgramFolder]:
    """Return a folder for each product, with the values of the step."""
    plan = folder.plan
    values = {
        name: tensor.from_bytes(folder.expected_bytes(name), plan.config) for name, tensor in plan.tensors.items()
    }
    plans = [
        Plan(
            name=product.name,
            config=plan.config,
            tensors={name: plan.tensors[name] for name in product.tensors.values()},
            calls=(product,),
        )
        for product in plan.calls
        if isinstance(product, Product)
    ]
    return [build_folder(plan_of_product, values, base=folder.memory_map.base) for plan_of_product in plans]


def compare_step(model: str, batch: int) -> dict[str, Any]:
    """Measure a model's training step as few programs, and with a program for each product."""
    folder = compile_task(model, core_preset("core"), batch=batch)
    product_folders = separate_products(folder)
    cycles, moved = measure(folder)
    single_cycles, single_moved = map(sum, zip(*map(measure, product_folders), strict=True))
    return {
        "model": model,
        "batch": batch,
        "programs": len(folder.programs),
        "products": len(product_folders),
        "cycles": cycles,
        "single_cycles": single_cycles,
        "bytes": moved,
        "single_bytes": single_moved,
    }


def compile_network(name: str, batch: int) -> dict[str, Any]:
    """Measure time and memory of compiling a step of SGD with momentum. The memory is the peak of the process."""
    size = IMAGE_SIZES[name]
    torch.manual_seed(0)
    if name == "resnet18":
        model = build_resnet18()
    else:
        model = ResNet50(Shape(width=64, size=size, classes=1000, batch=batch, rate=0.1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    example = torch.rand(batch, 3, size, size), torch.randint(10, (batch,))
    start, start_cpu = time.perf_counter(), time.process_time()
    folder = compile_step(model, nn.functional.cross_entropy, optimizer, example)
    return {
        "model": name,
        "batch": batch,
        "image_size": size,
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - start_cpu,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "programs": len(folder.programs),
        "products": sum(isinstance(call, Product) for call in folder.plan.calls),
        "host_calls": sum(isinstance(call, HostCall) for call in folder.plan.calls),
        "memory_bytes": folder.memory_map.size,
    }


def fill_page(text: str, results: Mapping[str, Any]) -> str:
    """Return the page with the table of compiled networks."""
    return replace_between(text, "<!-- compile -->", "<!-- /compile -->", render("compile", rows=results.values()))


def store_row(row: dict[str, Any]) -> None:
    """Write the figures of a network into the data file and the page."""
    results = {**load_figures(RESULTS), row["model"]: row}
    store_figures(RESULTS, results)
    atomic_write(PAGE, fill_page(PAGE.read_text(encoding="utf-8"), results))


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--batch", type=int, default=16, help="images in a step (default: 16)")
    parser.add_argument("--compile", choices=IMAGE_SIZES, help="only compile a step of this network")
    parser.add_argument("--page", action="store_true", help="with --compile: write the figures to docs")
    arguments = parser.parse_args()
    if arguments.page and not arguments.compile:
        parser.error("--page needs --compile")
    if arguments.compile:
        row = compile_network(arguments.compile, arguments.batch)
        if arguments.page:
            store_row({**row, **measured_at()})
        if arguments.json:
            print_json(row)
            return 0
        print(f"{row['model']}, batch {row['batch']}: {row['seconds']:.0f} s ({row['cpu_seconds']:.0f} s of CPU)")
        print(f"  {row['peak_bytes'] / 1e9:.2f} GB at most; the step's memory has {row['memory_bytes'] / 1e9:.3f} GB")
        print(f"  {row['products']} products in {row['programs']} programs, {row['host_calls']} host calls")
        return 0
    rows = [compare_step(model, arguments.batch) for model in MODELS]
    if arguments.json:
        print_json(rows)
        return 0
    for row in rows:
        print(f"{row['model']}, batch {row['batch']}: {row['products']} products in {row['programs']} programs")
        for unit, few_key, single_key in (("cycles", "cycles", "single_cycles"), ("bytes", "bytes", "single_bytes")):
            ratio = row[few_key] / row[single_key]
            print(f"  {row[few_key]:,} {unit}, in separate programs {row[single_key]:,}: {ratio:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
