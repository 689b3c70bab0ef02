"""Print zeros and cycles of one training step of each built-in network, at the small scale.

python bench/networks.py [NAME...] [--after 0]
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import argument_parser
from tensordash_sim.networks import NAMES


def command(*arguments: str) -> Any:
    """Run a `tensordash` command. Return its JSON document and its seconds."""
    began = time.monotonic()
    run = [sys.executable, "-c", "from tensordash_cli.main import run; run()", *arguments, "--json"]
    return json.loads(subprocess.run(run, check=True, stdout=subprocess.PIPE).stdout), time.monotonic() - began


def main(after: int, names: tuple[str, ...]) -> None:
    """Print a line for each network."""
    print(f"small scale, seed 0, the step after {after}; default chip, preset paper; seconds: record, simulate\n")
    print("network                A       W       G   ideal    AxW    WxG    AxG    all memory  seconds")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            trace = str(Path(folder) / "run.trace")
            _, recording = command("trace", "--model", name, "--after", str(after), "-o", trace)
            zeros = command("inspect", trace)[0]["zeros"]
            document, simulating = command("simulate", trace, "-o", folder)
        totals = document["totals"]
        gains = "".join(f"{totals[each]['compute_speedup']:6.2f}x" for each in ("AxW", "WxG", "AxG", "all"))
        shares = "".join(f"{zeros[tensor]:8.1%}" for tensor in "AWG")
        ideal, memory = totals["all"]["ideal_speedup"], totals["all"]["speedup"]
        print(f"{name:16}{shares}{ideal:7.2f}x{gains}{memory:6.2f}x{recording:6.0f}{simulating:6.0f}", flush=True)


if __name__ == "__main__":
    parser = argument_parser(__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", default=NAMES, help="networks (default: all)")
    parser.add_argument("--after", type=int, default=0, help="training steps before the recorded one")
    options = parser.parse_args()
    main(options.after, tuple(options.names))
