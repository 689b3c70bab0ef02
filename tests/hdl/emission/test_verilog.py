"""Test that emitted Verilog is reproducible, has one module per distinct component, and gives no warnings."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from tensordash import TileConfig, generate, load_preset
from tensordash.configuration.numerics import Fused
from tensordash.emission.verilog import render
from tensordash_sim.verify.builds import verilator_environment

from .emitted import modules_of, needs_icarus, needs_verilator, ports_of

CONFIGS = {
    "paper": load_preset("paper"),
    "dense": load_preset("dense"),
    "paper-16lane": load_preset("paper-16lane"),
    "ring-2x2": load_preset("recommended", ["tile.rows=2", "tile.columns=2"]),
    "both-2x2": TileConfig(rows=2, columns=2, sparsity="both"),
    "bf16-c": load_preset("paper-bf16", ["tile.rows=2", "tile.columns=2", "tile.initial=true"]),
    "fp8-c": TileConfig(rows=2, columns=2, format={"a": "fp8_e4m3", "b": "fp8_e5m2"}, initial=True, pipeline=3),
    "int8-c": TileConfig(rows=2, columns=2, format="int8", initial=True, out_rows=2, sparsity="none"),
    "nearest": TileConfig(rows=1, columns=2, format="fp8_e4m3", accumulator={"fused": 10, "rounding": "nearest"}),
    "blackwell-fp8-c": TileConfig(rows=1, columns=1, format="fp8_e5m2", accumulator="blackwell-fp8", initial=True),
    "tf32-c": TileConfig(
        rows=1,
        columns=2,
        lanes=3,
        format="tf32",
        accumulator={"fused": 24, "result_bits": 13, "zero_exponent": -132},
        initial=True,
    ),
    "fp16-results-c": TileConfig(rows=1, columns=2, accumulator="hopper-fp16", initial=True),
    "c-last": TileConfig(rows=1, columns=1, lanes=2, accumulator="blackwell-fp16", initial=True, sparsity="none"),
    "mxfp6": TileConfig(rows=1, columns=2, format="fp6_e3m2", scale="e8m0", accumulator="volta"),
}
TOPS = ("tensordash_tile", "tensordash_axi_stream_tile")


# Cached per process: pytest-xdist would compute a module's fixture whenever a worker's tests switch configurations.
cached_render = cache(render)


@pytest.fixture(params=CONFIGS)
def rendered(request):
    config = CONFIGS[request.param]
    return config, cached_render(config)


@pytest.fixture
def folder(rendered, tmp_path):
    for name, text in rendered[1].items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def companions(config: TileConfig) -> list[str]:
    """Return the tops that have their own files."""
    return ["tensordash_transposer", *["tensordash_block_quantiser"][: config.scale == "e8m0"]]


def tops_to_lint(config) -> list[tuple[str, str]]:
    """Return tops and their files. The wrapper contains the tile, so only one configuration checks the tile alone."""
    tops = [("tensordash_axi_stream_tile", "tensordash.v"), *((name, f"{name}.v") for name in companions(config))]
    return [*tops, ("tensordash_tile", "tensordash.v")] if config == CONFIGS["paper"] else tops


def instances(text: str) -> list[tuple[str, str]]:
    """Return (module, instance) of every instance in a module's text."""
    return re.findall(r"^  (tensordash_\w+|mytile_\w+) (\w+) \(", text, re.M)


@pytest.mark.sampled(5)
def test_list_of_files(rendered):
    config, texts = rendered
    assert list(texts) == [
        "tensordash.v",
        *(f"{name}.v" for name in companions(config)),
        *("tensordash_assertions.sv", "tensordash.vlt", "tensordash.f", "tensordash.core"),
        *("tensordash_tile.sdc", "tensordash_axi_stream_tile.sdc", "tensordash_librelane.yaml", "tensordash_ports.md"),
        *("config.toml", "config.json", "component.xml"),
        "tensordash_axi_stream_tile_ip.v",
        "tensordash_axi_stream_tile_ip.sdc",
        "tensordash_tile_inst.vh",
        "tensordash_axi_stream_tile_inst.vh",
        "tensordash_axi_stream_tile_sv.sv",
        "tensordash_axi_stream_tile_sv_inst.svh",
    ]
    assert texts["tensordash.f"].split() == ["tensordash.v", *(f"{name}.v" for name in companions(config))]
    assert all(text.endswith("\n") and "\r" not in text for text in texts.values())
    assert config.digest in texts["tensordash.v"].splitlines()[0]


def test_emission_is_reproducible(tmp_path):
    script = (
        "import hashlib, json; from tensordash import load_preset; from tensordash.emission.verilog import render; "
        "texts = render(load_preset('paper')); "
        "print(json.dumps({name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}))"
    )
    runs = []
    for seed in ("0", "1"):
        folder = tmp_path / f"somewhere {seed}"
        folder.mkdir()
        runs.append(
            subprocess.Popen(
                [sys.executable, "-c", script],
                cwd=folder,
                env={"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    outputs = []
    for run in runs:
        output, _ = run.communicate(timeout=300)
        assert run.returncode == 0
        outputs.append(json.loads(output))
    here = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in render(load_preset("paper")).items()}
    assert outputs[0] == outputs[1] == here


def test_generate_writes_the_rendered_files(tmp_path):
    config = CONFIGS["both-2x2"]
    folder = tmp_path / "new" / "folder"
    written = generate(config, folder)
    assert sorted(written) == sorted(folder.iterdir())
    assert {path.name: path.read_text(encoding="utf-8") for path in written} == cached_render(config)


def test_generate_over_old_files(tmp_path):
    config = TileConfig(rows=1, columns=1)
    (tmp_path / "tensordash.v").write_text("old")
    written = generate(config, str(tmp_path))
    assert sorted(written) == sorted(tmp_path.iterdir())
    assert (tmp_path / "tensordash.v").read_text(encoding="utf-8") == render(config)["tensordash.v"]


def test_no_absolute_paths(rendered):
    for name, text in rendered[1].items():
        # A slash that begins a word, except in a comment, a division or the end of an XML element.
        assert not re.search(r"(?<![\w/*<])/(?![/*\s])[\w.]+", text), name
        assert ".py" not in text, name
        assert "src" not in text, name


def test_modules_are_defined_once(rendered):
    _, texts = rendered
    names = re.findall(r"^module (\S+?)\(", texts["tensordash.v"] + texts["tensordash_transposer.v"], re.M)
    assert Counter(names).most_common(1)[0][1] == 1
    assert set(TOPS) <= set(names)
    assert all(re.fullmatch(r"tensordash_[a-z0-9_]+", name) for name in names)


def test_every_module_is_used(rendered):
    _, texts = rendered
    defined = modules_of(texts["tensordash.v"])
    used = {kind for text in defined.values() for kind, _ in instances(text)}
    assert used | {"tensordash_axi_stream_tile"} == set(defined)


def test_modules_are_distinct(rendered):
    bodies = [text.partition("(")[2] for text in modules_of(rendered[1]["tensordash.v"]).values()]
    assert len(set(bodies)) == len(bodies)


def test_equal_components_are_one_module():
    defined = modules_of(cached_render(CONFIGS["paper"])["tensordash.v"])
    count = Counter(kind for kind, _ in instances(defined["tensordash_tile"]))
    assert count == {
        "tensordash_control": 1,
        "tensordash_counters": 1,
        "tensordash_flags": 1,
        "tensordash_drain": 1,
        "tensordash_operand_flags__fp16": 4,
        "tensordash_operand_flags__fp16_zeros": 4,
        "tensordash_operand_mux": 4,
        "tensordash_row_scheduler": 4,
        "tensordash_scheduled_pe": 16,
        "tensordash_staging_buffer": 8,
    }
    named = {name: kind for kind, name in instances(defined["tensordash_tile"])}
    assert {named[f"pe_{row}_{column}"] for row in range(4) for column in range(4)} == {"tensordash_scheduled_pe"}
    inside = Counter(kind for kind, _ in instances(defined["tensordash_pe"]))
    assert inside == {"tensordash_multiplier": 4, "tensordash_exact_accumulator": 1}
    wrapped = Counter(kind for kind, _ in instances(defined["tensordash_axi_stream_tile"]))
    assert wrapped == {"tensordash_tile": 1, "tensordash_step_feeder": 8}


def test_a_ring_has_no_staging_buffer():
    text = cached_render(CONFIGS["ring-2x2"])
    defined = modules_of(text["tensordash.v"])
    assert not {"tensordash_staging_buffer", "tensordash_step_feeder"} & set(defined)
    assert Counter(kind for kind, _ in instances(defined["tensordash_tile"]))["tensordash_staging_ring"] == 4
    assert Counter(kind for kind, _ in instances(defined["tensordash_axi_stream_tile"]))["tensordash_ring_feeder"] == 4
    order = "step t since reset on line t modulo 4"
    head = " ".join(line.removeprefix("// ") for line in text["tensordash.v"].splitlines()[:4])
    assert f" Inputs of tensordash_tile: {order} of steps. [tile]" in head
    assert json.loads(text["config.json"])["derived"]["step_order"] == order
    paper = cached_render(CONFIGS["paper"])
    assert "Inputs of" not in paper["tensordash.v"]
    assert json.loads(paper["config.json"])["derived"]["step_order"] == "the oldest on line 0"


def test_pes_of_two_sided_and_dense_tiles():
    both = modules_of(cached_render(CONFIGS["both-2x2"])["tensordash.v"])
    assert Counter(kind for kind, _ in instances(both["tensordash_tile"]))["tensordash_self_scheduled_pe"] == 4
    dense = modules_of(cached_render(CONFIGS["dense"])["tensordash.v"])
    assert Counter(kind for kind, _ in instances(dense["tensordash_tile"]))["tensordash_pe"] == 16
    assert not {name for name in dense if "scheduler" in name or "mux" in name}


@pytest.mark.parametrize("top", ["tile", "axi_stream_tile"])
def test_constraints_name_every_port(rendered, top):
    ports = json.loads(rendered[1]["config.json"])["modules"][f"tensordash_{top}"]
    found = re.findall(r"^(\w+) .*\[get_ports \{?([^}\n]*?)\}?\]$", rendered[1][f"tensordash_{top}.sdc"], re.M)
    assert [names for command, names in found if command == "create_clock"] == ["clk"]
    for direction in ("input", "output"):
        names = [name + "[*]" * (port["width"] > 1) for name, port in ports.items() if port["direction"] == direction]
        listed = [name for command, group in found if command == f"set_{direction}_delay" for name in group.split()]
        assert sorted(listed) == sorted(set(names) - {"clk"})


def test_two_tiles_share_a_period(rendered):
    """A tile's output may be another tile's C, so the external delays of both ports add up to one period."""
    text = rendered[1]["tensordash_tile.sdc"]
    lines = re.findall(
        r"^set_(?:in|out)put_delay \[expr ([\d.]+) \* \$period\] .*\[get_ports \{([^}\n]*)\}\]$", text, re.M
    )
    outside = {name.removesuffix("[*]"): float(share) for share, names in lines for name in names.split()}
    if "c_valid" in outside:
        for one, other in (("out_valid", "c_valid"), ("out_payload", "c_payload"), ("c_ready", "out_ready")):
            assert outside[one] + outside[other] == 1
    for source in ("a_0_available", "out_ready", "rst"):  # Paths through the tile have at least half of the period.
        assert outside[source] + outside["a_0_taken"] <= 0.5


def test_submodules_have_names(rendered):
    assert "U$" not in rendered[1]["tensordash.v"]


def test_prefix():
    texts = render(TileConfig(rows=1, columns=1), prefix="mytile")
    files = ["mytile.v", "mytile_transposer.v", "mytile_assertions.sv", "mytile.vlt", "mytile.f"]
    assert list(texts)[:5] == files
    assert texts["mytile.f"].split() == ["mytile.v", "mytile_transposer.v"]
    for name in ("mytile.v", "mytile_transposer.v"):
        defined = modules_of(texts[name])
        assert defined
        assert all(module.startswith("mytile_") for module in defined)
        assert "tensordash_" not in texts[name]
    assert set(json.loads(texts["config.json"])["modules"]) == {
        "mytile_tile",
        "mytile_axi_stream_tile",
        "mytile_transposer",
    }
    plain = render(TileConfig(rows=1, columns=1))["tensordash.v"]
    assert texts["mytile.v"] == re.sub(r"\btensordash_", "mytile_", plain)


@pytest.mark.parametrize("prefix", ["", "9lives", "my-tile", "my tile", "../evil", "tile;", "_x", "a\n"])
def test_bad_prefix(prefix, tmp_path):
    with pytest.raises(ValueError, match="prefix must be a letter followed by letters, digits or underscores, at most"):
        generate(TileConfig(rows=1, columns=1), tmp_path / "out", prefix)
    assert not (tmp_path / "out").exists()


def test_config_toml(rendered, tmp_path):
    config, texts = rendered
    path = tmp_path / "config.toml"
    path.write_text(texts["config.toml"], encoding="utf-8")
    assert TileConfig.load(path) == config
    header = [line.removeprefix("//").strip() for line in texts["tensordash.v"].partition("\n\n")[0].splitlines()]
    assert TileConfig.from_toml("\n".join(header[header.index("[tile]") :])) == config


def accumulator_bits(config: TileConfig) -> int:
    """Return the width of the accumulator that docs/numerics.md defines."""
    accumulator = config.numerics.accumulator
    if isinstance(accumulator, Fused):
        return 1 + accumulator.result_exponent_bits + accumulator.result_bits
    products = {"fp16": 80, "int8": 15}.get(str(config.format), 50)
    return products + 1 + config.headroom_bits


def test_config_json(rendered):
    config, texts = rendered
    document = json.loads(texts["config.json"])
    assert document["digest"] == config.digest
    assert TileConfig.from_mapping(document["config"]) == config
    derived = document["derived"]
    assert [tuple(option) for option in derived["options"]] == list(config.options)
    assert derived["window_depth"] == config.window_depth
    assert derived["accumulator_bits"] == accumulator_bits(config)
    assert derived["output_beats"] * config.out_rows == config.rows
    assert sorted(lane for level in derived["levels"] for lane in level) == list(range(config.lanes))


def test_json_ports_match_the_verilog_ports(rendered):
    config, texts = rendered
    defined = {
        name: text
        for file in ("tensordash", *companions(config))
        for name, text in modules_of(texts[f"{file}.v"]).items()
    }
    described = json.loads(texts["config.json"])["modules"]
    assert set(described) == {*TOPS, *companions(config)}
    for module, ports in described.items():
        text = defined[module]
        found = {name: {"direction": direction, "width": width} for name, (direction, width) in ports_of(text)}
        assert found == ports, module
        assert list(found) == [*list(ports)[:2], *[name for name in found if name not in ("clk", "rst")]]


def test_json_schedule_times_match_the_tile():
    derived = json.loads(render(TileConfig(rows=1, columns=1, pipeline=3))["config.json"])["derived"]
    assert (derived["stages"], derived["schedule_to_accumulation_cycles"]) == (3, 2)
    assert derived["schedule_to_output_cycles"] == 4
    late = json.loads(render(TileConfig(rows=1, columns=1, pipeline=3, initial=True))["config.json"])["derived"]
    assert late["schedule_to_output_cycles"] == 5


def verilator_lint(folder, top: str, *files: str) -> tuple[int, list[str]]:
    """Return exit status and output, without the banner."""
    command = ["verilator", "--lint-only", "-Wall", "--top-module", top, *files]
    run = subprocess.run(command, cwd=folder, env=verilator_environment(), capture_output=True, text=True)
    lines = (run.stdout + run.stderr).splitlines()
    return run.returncode, [line for line in lines if line and not line.startswith("- ")]


@needs_icarus
def test_icarus_has_no_warnings(rendered, folder):
    for top, file in tops_to_lint(rendered[0]):
        command = ["iverilog", "-Wall", "-g2005", "-t", "null", "-s", top, file]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@needs_verilator
def test_verilator_has_no_warnings(rendered, folder):
    for top, file in tops_to_lint(rendered[0]):
        assert verilator_lint(folder, top, "tensordash.vlt", file) == (0, [])


@needs_verilator
@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["paper", "recommended"])
def test_verilator_finds_no_loops_and_no_overlaps_without_waivers(name, tmp_path):
    """For a core, see test_core_files.py."""
    generate(load_preset(name), tmp_path)
    _, lines = verilator_lint(tmp_path, "tensordash_axi_stream_tile", "tensordash.v")
    kinds = set(re.findall(r"%Warning-(\w+)", "\n".join(lines)))
    assert kinds == {"UNUSEDSIGNAL", "DECLFILENAME"}


@needs_verilator
def test_waivers_hold_for_any_prefix(tmp_path):
    generate(TileConfig(rows=2, columns=1), tmp_path, "mytile")
    assert verilator_lint(tmp_path, "mytile_axi_stream_tile", "mytile.vlt", "mytile.v") == (0, [])


@pytest.mark.slow
def test_text_grows_linearly_with_lanes():
    """Four times the lanes make less than five times the text."""
    config = TileConfig(rows=1, columns=1, lanes=32, sparsity="none", format="bf16", accumulator="hopper")
    few = len(render(replace(config, lanes=8))["tensordash.v"])
    assert len(render(config)["tensordash.v"]) < 5 * few


def test_no_logic_for_a_c_input_that_is_off():
    text = cached_render(CONFIGS["paper"])["tensordash.v"]
    assert not [name for name in modules_of(text) if "initial" in name]
    assert not re.search(r"\b(c_valid|c_ready|c_payload|s_axis_c_tdata|startable)\b", text)
    with_c = cached_render(CONFIGS["fp8-c"])["tensordash.v"]
    assert {"tensordash_initial_store", "tensordash_initial_adder"} <= set(modules_of(with_c))
