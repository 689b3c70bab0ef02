"""Test `tensordash train` and `tensordash map`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tensordash_runtime.backends import Golden

from .called import call


def test_training_resumes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = f"train --preset core --model mlp --seed 3 -o {tmp_path / 'run'} --json --steps"
    first = json.loads(call(f"{command} 2", capfd)[0])
    second = json.loads(call(f"{command} 4", capfd)[0])
    assert second["history"][:2] == first["history"]
    assert (second["steps"], second["model"], second["backend"]) == (4, "mlp", "emulator")
    assert second["dense_cycles"] == sum(step["dense_cycles"] for step in second["history"])
    assert second["speedup"] == round(second["dense_cycles"] / second["cycles"], 4)
    document = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert {step["step"] for step in document["run"]["contractions"]} == {2, 3}
    assert "<h1" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    _, err = call(f"train --preset core --model mlp --seed 4 -o {tmp_path / 'run'}", capfd, status=2)
    assert err.count("\n") == 1
    assert "has seed = 3, not 4" in err
    _, err = call(f"train --preset core --model mlp --seed 3 --batch 8 -o {tmp_path / 'run'}", capfd, status=2)
    assert "has batch = None, not 8" in err


def test_the_nvfp4_recipe(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Gradients are rounded stochastically. The named layers are in bf16, which flushes no values."""
    command = f"train --preset nvfp4 --model mlp --recipe nvfp4 --steps 2 --json -o {tmp_path / 'run'}"
    default = json.loads(call(command, capfd)[0])
    document = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    flushed: dict[str, int] = {}
    for each in document["run"]["contractions"]:
        lost = sum(counts["flushed"] for counts in each["operands"].values())
        flushed[each["layer"]] = flushed.get(each["layer"], 0) + lost
    assert {name for name, count in flushed.items() if count == 0} == {"5"}
    _, err = call(f"{command} --bf16-layers 1", capfd, status=2)
    assert "has bf16_layers = ('5',), not ('1',)" in err
    _, err = call(command.replace("--recipe nvfp4", "--rounding stochastic"), capfd, status=2)
    assert "has recipe = nvfp4, not None" in err
    command = command.replace(f" -o {tmp_path / 'run'}", "")
    assert json.loads(call(f"{command} --rounding stochastic --bf16-layers 5", capfd)[0]) == default
    assert json.loads(call(f"{command} --rounding nearest", capfd)[0]) != default


def test_the_nvfp4_recipe_on_a_core(capfd: pytest.CaptureFixture[str]) -> None:
    """The golden core loads NVFP4 operands. Tensors stay float32, so that autocast is no reference."""
    command = "train --preset core-nvfp4 --model mlp --recipe nvfp4 --steps 1 --json"
    document = json.loads(call(f"{command} --compare golden", capfd)[0])
    plain = json.loads(call(command.replace(" --recipe nvfp4", ""), capfd)[0])
    assert document["history"] != plain["history"]
    assert document["cycles"] > 0
    _, err = call(f"{command} --reference autocast", capfd, status=2)
    assert "reference must be float32" in err
    _, err = call(command.replace("core-nvfp4", "core"), capfd, status=2)
    assert "recipe must be left out for a core with core.nvfp4 = false" in err


def test_layers_in_bf16_include_recurrent_weights(capfd: pytest.CaptureFixture[str]) -> None:
    command = "train --preset nvfp4 --model lstm --recipe nvfp4 --steps 1 --json --bf16-layers "
    recurrent, scores = (json.loads(call(command + layer, capfd)[0]) for layer in ("recurrent.*", "scores"))
    assert recurrent["history"] != scores["history"]


def test_printed_tables(capfd: pytest.CaptureFixture[str]) -> None:
    out, _ = call("train --preset paper --model gpt --steps 1", capfd)
    assert "blocks.0.qkv" in out
    assert "PyTorch's" in out


def test_comparison_with_golden(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    command = "train --preset core --model gpt --steps 1 --compare golden"
    original_run = Golden.run

    def broken(self: Golden, job: Any) -> Any:
        ran = original_run(self, job)
        ran.bits.reshape(-1)[3] ^= 1
        return ran

    monkeypatch.setattr(Golden, "run", broken)
    _, err = call(command, capfd, status=1)
    assert err.count("\n") == 1
    assert "step 0, emulator and golden: AxW of blocks.0.qkv: element" in err


def test_map_of_a_layer(capfd: pytest.CaptureFixture[str]) -> None:
    arguments = "map --preset core --channels 64 --filters 32 --size 8 --kernel 3 --padding 1 --op WxG --rows G"
    document = json.loads(call(f"{arguments} --json", capfd)[0])
    assert document["row_side"] == "G"
    assert document["cycles"] < document["dense_core"]
    assert document["limited_by"] == max(document["busy"], key=document["busy"].get)
    # All operands and results move at least once.
    assert document["bytes_moved"] >= 2 * (64 * 64 + 32 * 64 + 64 * 32 * 9)
    # Each stage agrees with the last one.
    assert document["tilings"]["tried"] >= document["tilings"]["fitting"] >= document["tilings"]["estimated"] > 0
    descriptors, schedule = document["descriptors"], document["schedule"]
    assert (descriptors["load"], descriptors["store"]) == (schedule["loads"], schedule["tiles"])
    assert descriptors["multiply"] == document["multiplies"]
    text, _ = call(f"{arguments} --listing", capfd)
    assert f"bytes moved {document['bytes_moved']}" in " ".join(text.split())
    assert text.splitlines()[-1].split() == [str(sum(descriptors.values()) - 1), "end"]
    # With one sample, channels are divided, and both cores read the gradient.
    several = json.loads(call(f"{arguments} --cores 2 --json", capfd)[0])["several_cores"]
    assert (several["parts"], several["divided"], several["shared"]) == (2, "channels", "G")
    assert document["cycles"] / 2 < several["cycles"] < document["cycles"]
    assert several["bytes_moved"] < several["bytes_moved_apart"]
