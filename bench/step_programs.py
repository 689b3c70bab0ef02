"""Compare a training step whose products are joined to few programs with one program a product, on the Verilog.

    python bench/step_programs.py           # a summary
    python bench/step_programs.py --json

Both have the same products, formats and fused operations, and leave the same bits. Cycles are those of the core,
without the host's work between programs. Bytes are those that loads, stores and records move.
"""

import sys
from typing import Any

from common import argument_parser, core_preset, print_json
from tensordash_runtime.program_folder.compiling import compile_task
from tensordash_runtime.program_folder.folder import ProgramFolder, build_folder, run_folder
from tensordash_runtime.program_folder.plan import Plan, Product

MODELS = ("mlp", "digits")


def measure(folder: ProgramFolder) -> tuple[int, int]:
    """Run a folder on the Verilog; return cycles and bytes moved.

    Raises
    ------
    ValueError
        If a value is not the expected one.
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
    singles = [
        Plan(
            name=product.name,
            config=plan.config,
            tensors={name: plan.tensors[name] for name in product.tensors.values()},
            calls=(product,),
        )
        for product in plan.calls
        if isinstance(product, Product)
    ]
    return [build_folder(single, values, base=folder.memory_map.base) for single in singles]


def compare_step(model: str, batch: int) -> dict[str, Any]:
    """Measure a model's training step both ways."""
    folder = compile_task(model, core_preset("core"), batch=batch)
    singles = separate_products(folder)
    cycles, moved = measure(folder)
    single_cycles, single_moved = map(sum, zip(*map(measure, singles), strict=True))
    return {
        "model": model,
        "batch": batch,
        "programs": len(folder.programs),
        "products": len(singles),
        "cycles": cycles,
        "single_cycles": single_cycles,
        "bytes": moved,
        "single_bytes": single_moved,
    }


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--json", action="store_true", help="Print one JSON document.")
    parser.add_argument("--batch", type=int, default=16, help="Digits in a step.")
    arguments = parser.parse_args()
    rows = [compare_step(model, arguments.batch) for model in MODELS]
    if arguments.json:
        print_json(rows)
        return 0
    for row in rows:
        print(f"{row['model']}, batch {row['batch']}: {row['products']} products in {row['programs']} programs")
        for unit, joined, single in (("cycles", "cycles", "single_cycles"), ("bytes", "bytes", "single_bytes")):
            print(f"  {row[joined]:,} {unit}, alone {row[single]:,}: {row[joined] / row[single]:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
