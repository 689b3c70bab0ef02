"""Test that files, top, port and period of the LibreLane configuration match the other emitted files."""

import json
import re

import pytest
import yaml

from tensordash import load_preset
from tensordash.emission.verilog import render

from .emitted import emitted_core

TILES = ["recommended", "dense"]


def texts_of(name: str) -> dict[str, str]:
    return render(load_preset(name)) if name in TILES else emitted_core(name)


@pytest.mark.parametrize("name", [*TILES, "core"])
def test_configuration_names_existing_files_modules_and_ports(name: str) -> None:
    texts = texts_of(name)
    config = yaml.safe_load(texts["tensordash_librelane.yaml"])
    assert config.pop("meta") == {"version": 2, "flow": "Classic"}
    verilog = [file.removeprefix("dir::") for file in config["VERILOG_FILES"]]
    assert set(verilog) <= set(texts)
    # Every module below the top is defined.
    text = "".join(texts[file] for file in verilog)
    modules = set(re.findall(r"^module (\w+)\(", text, re.M))
    assert config["DESIGN_NAME"] in modules
    assert set(re.findall(r"^  (tensordash_\w+) \w+ \(", text, re.M)) <= modules
    ports = json.loads(texts["config.json"])["modules"][config["DESIGN_NAME"]]
    assert ports[config["CLOCK_PORT"]] == {"direction": "input", "width": 1}
    assert config["PNR_SDC_FILE"] == config["SIGNOFF_SDC_FILE"]
    constraints = texts[config["PNR_SDC_FILE"].removeprefix("dir::")]
    (period,) = re.findall(r"^set period ([\d.]+)$", constraints, re.M)
    assert config["CLOCK_PERIOD"] == float(period)
    assert f"[get_ports {config['CLOCK_PORT']}]" in constraints
    assert f"# {config['DESIGN_NAME']}: one clock" in constraints


def test_memories_of_a_core_are_noted_as_macros() -> None:
    texts = emitted_core("core")
    text = texts["tensordash_librelane.yaml"]
    (_, noted) = text.split("# MACROS:\n")
    macros = yaml.safe_load(re.sub("^# ", "", noted, flags=re.M))
    memories = json.loads(texts["config.json"])["memories"]
    assert list(macros) == [memory["module"] for memory in memories]
    assert set(macros) == set(re.findall(r"^module (\w+)\(", texts["tensordash_memories.v"], re.M))
    for memory in memories:
        comment = f"{memory['words']} words of {memory['bits']} bits"
        assert f"{memory['module']}:   # {comment}" in noted
    assert "MACROS" not in yaml.safe_load(text), "macros are a comment, because their files do not exist"
    assert "MACROS" not in texts_of("dense")["tensordash_librelane.yaml"]
