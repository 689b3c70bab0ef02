"""Test `tensordash simulate` on traces."""

import csv
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensordash_sim.lowering import MatrixProduct, Operation
from tensordash_sim.performance.chip import ChipConfig, results
from tensordash_sim.trace import Trace, TraceWriter

from ..sim.lowering.geometries import convolution
from .simulate_calls import Capture, call, call_json

CONVOLUTION = convolution(batch=2, channels=(8, 8), size=(6, 6), kernel=(3, 3), padding=(1, 1))
LINEAR = MatrixProduct(batch=1, samples=16, in_features=32, out_features=16)
STREAM = np.tile([True, False, True, False], (4, 100, 1))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with traces and streams, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    with TraceWriter("run.trace", conditions={"model": "small"}) as writer, writer.step(5) as step:
        for layer, geometry in (("conv[red]", CONVOLUTION), ("fc", LINEAR)):
            for operation in Operation:
                shapes = {name: geometry.shapes[name] for name in (operation.left, operation.right)}
                step.record(layer, operation, geometry, {name: rng.random(s) < 0.5 for name, s in shapes.items()})
    with TraceWriter("empty.trace") as writer, writer.step(0):
        pass
    np.save("stream.npy", STREAM)
    np.save("rows.npy", STREAM[:3])
    np.save("floats.npy", STREAM.astype(np.float32))
    np.save("a[0].npy", STREAM.astype(np.int8))
    np.save("flat.npy", STREAM[0])
    np.save("short.npy", STREAM[:, :99])
    np.save("objects.npy", np.array([None], dtype=object))
    np.savez("archive.npz", STREAM)
    Path("text.npy").write_text("not an array")
    Path("empty.npy").write_bytes(b"")
    Path("zip.npy").write_bytes(b"PK\x03\x04 not an archive")
    Path("cut.npy").write_bytes(Path("stream.npy").read_bytes()[:-1])
    data = Path("stream.npy").read_bytes().replace(b"(4, 100, 4), ", b"(4, 10**9), ", 1)
    Path("header.npy").write_bytes(data)
    data = Path("stream.npy").read_bytes().replace(b"(4, 100, 4), }          ", b"(4, 10000000000000, 4), }", 1)
    Path("huge.npy").write_bytes(data)
    Path("tile.toml").write_text("[tile]\nrows = 2\n")
    Path("chip.toml").write_text("[chip]\ntiles = 2\n[power]\nprovisional = false\n")
    Path("wrong.toml").write_text("[chip]\ntiles = 0\n")
    Path("a_folder").mkdir()
    return tmp_path


class TestTrace:
    def test_table(self, folder: Path, capfd: Capture) -> None:
        lines = [line.split() for line in call("run.trace --chip chip.toml", capfd).splitlines()]
        assert lines[0][:5] == ["layer", "operation", "row", "side", "zeros"]
        operations = ["AxW", "WxG", "AxG"]
        assert [line[:2] for line in lines[1:7]] == [[name, op] for name in ("conv[red]", "fc") for op in operations]
        assert [line[:2] for line in lines[7:11]] == [["total", name] for name in (*operations, "all")]
        document = call_json("run.trace --chip chip.toml", capfd)
        at = [f"{each['speedup']:.2f}x at {each['gbps']:g}" for each in document["bandwidths"]]
        assert " ".join(lines[12]).startswith(f"with memory: {', '.join(at)} GB/s; from ")
        assert lines[12][-9] == f"{document['sufficient_gbps']:g}"
        assert lines[13][-2:] == [f"{document['totals']['all']['unpadded_speedup']:.2f}x", "tiles"]
        energy = " ".join(lines[14])
        every = document["totals"]["all"]
        names = ("core_energy_ratio", "logic_energy_ratio", "energy_ratio")
        work, logic, chip = (f"{every[name]:.2f}x" for name in names)
        at = [f"{each['energy_ratio']:.2f}x at {each['gbps']:g}" for each in document["bandwidths"]]
        assert energy == (
            f"energy efficiency over the baseline: {work} tiles at work, {logic} with waiting tiles, "
            f"{chip} with SRAM and DRAM ({', '.join(at)} GB/s)"
        )
        for line, result in zip(lines[1:7], document["operations"], strict=True):
            assert line[2] == result["scheduled"]
            assert line[3] == f"{result['zeros']:.1%}"
            assert line[5:8] == [
                f"{result['ideal_speedup']:.2f}x",
                f"{result['dense_compute']:,}",
                f"{result['compute']:,}",
            ]
            speedups = [f"{result[name]:.2f}x" for name in ("compute_speedup", "shared_speedup", "speedup")]
            assert line[8:] == [*speedups, result["limit"]]

    def test_bandwidths_of_the_chip(self, folder: Path, capfd: Capture) -> None:
        """The first bandwidth is the chip's own, 25.6 GB/s, and has the cycles of the totals."""
        document = call_json("run.trace", capfd)
        first, *others = document["bandwidths"]
        totals = document["totals"]["all"]
        assert (first["gbps"], first["cycles"], first["dense_cycles"]) == (
            25.6,
            totals["cycles"],
            totals["dense_cycles"],
        )
        assert [each["gbps"] for each in others] == [102.4, 256.0]
        assert first["cycles"] >= others[0]["cycles"] >= others[1]["cycles"]

    def test_the_faster_side_and_joined_samples(self, folder: Path, capfd: Capture) -> None:
        plain = call_json("run.trace", capfd)
        faster, joined = (
            call_json(f"run.trace {option}", capfd) for option in ("--side faster", "--join-samples always")
        )
        sides = [call_json(f"run.trace --side {side}", capfd)["operations"] for side in ("left", "right")]
        for found, left, right in zip(faster["operations"], *sides, strict=True):
            assert found["on_chip"] == min(left["on_chip"], right["on_chip"])
        changed = [
            (before["layer"], before["operation"])
            for before, after in zip(plain["operations"], joined["operations"], strict=True)
            if before != after
        ]
        assert changed == [("conv[red]", "AxG")]
        assert joined["machine"]["join_samples"] == "always"
        chosen = call_json("run.trace --join-samples faster", capfd)
        for found, alone, together in zip(*(each["operations"] for each in (chosen, plain, joined)), strict=True):
            assert found["on_chip"] == min(alone["on_chip"], together["on_chip"])

    def test_calls_of_a_layer_share_a_line(self, folder: Path, capfd: Capture) -> None:
        rng = np.random.default_rng(1)
        with TraceWriter("recurrent.trace") as writer, writer.step(0) as step:
            for density in (0.2, 0.5, 0.9):
                a = rng.random(LINEAR.shapes["A"]) < density
                step.record("cell", "AxW", LINEAR, {"A": a, "W": np.ones(LINEAR.shapes["W"], bool)})
        lines = [line.split() for line in call("recurrent.trace", capfd).splitlines()]
        calls = call_json("recurrent.trace", capfd)["operations"]
        assert len(calls) == 3
        assert lines[1][:4] == ["cell", "AxW", "x3", "A"]
        assert lines[1][4] == f"{sum(result['zeros'] for result in calls) / 3:.1%}"
        assert lines[1][7:9] == [f"{sum(result[name] for result in calls):,}" for name in ("dense_compute", "compute")]
        assert lines[2][:2] == ["total", "AxW"]

    def test_layers_are_summed_over_steps(self, folder: Path, capfd: Capture) -> None:
        rng = np.random.default_rng(2)
        name = "Network.encoder.layers.11.self_attention.output.dense" * 3
        with TraceWriter("steps.trace") as writer:
            for index in (2, 4, 9):
                with writer.step(index) as step:
                    for layer in (name, "fc") if index != 4 else (name,):
                        for operation in ("AxW", "AxG"):
                            shapes = {side: LINEAR.shapes[side] for side in operation.split("x")}
                            masks = {side: rng.random(shape) < 0.3 for side, shape in shapes.items()}
                            step.record(layer, operation, LINEAR, masks)
        document = call_json("steps.trace", capfd)
        assert list(document["layers"]) == [name, "fc"]
        for layer, sums in document["layers"].items():
            assert list(sums) == ["AxW", "AxG", "all"]
            for operation, added in sums.items():
                chosen = [
                    result
                    for result in document["operations"]
                    if result["layer"] == layer and operation in ("all", result["operation"])
                ]
                assert added["compute"] == sum(result["compute"] for result in chosen)
                assert added["compute_speedup"] == added["dense_compute"] / added["compute"]
        # Output to a pipe has full names, even of 156 letters.
        lines = [line.split() for line in call("steps.trace", capfd).splitlines()]
        sums = [line for line in lines if line[1:2] == ["steps"]]
        assert [line[:4] for line in sums] == [
            [count, "steps", layer, operation]
            for count, layer in (("3", name), ("2", "fc"))
            for operation in ("AxW", "AxG", "all")
        ]
        for line in sums:
            added = document["layers"][line[2]][line[3]]
            assert line[5:8] == [
                f"{added['dense_compute']:,}",
                f"{added['compute']:,}",
                f"{added['compute_speedup']:.2f}x",
            ]
        assert sum(line[1:2] == [name] for line in lines) == 6

    def test_uncaptured_operations_are_listed(self, folder: Path, capfd: Capture) -> None:
        with TraceWriter("part.trace") as writer:
            for index in range(2):
                with writer.step(index) as step:
                    masks = {name: np.ones(LINEAR.shapes[name], bool) for name in "AW"}
                    step.record("fc", "AxW", LINEAR, masks)
                    step.add_uncaptured("aten::_fused_rnn of layer [gru]")
                    if index:
                        step.add_uncaptured("aten::conv3d")
        assert call_json("part.trace", capfd)["uncaptured"] == [
            {"what": "aten::_fused_rnn of layer [gru]", "steps": [0, 1]},
            {"what": "aten::conv3d", "steps": [1]},
        ]
        assert call("part.trace", capfd).endswith(
            "\nnot captured, and in no number above:\n"
            "  in 2 steps: aten::_fused_rnn of layer [gru]\n  in 1 step: aten::conv3d\n"
        )
        assert call_json("run.trace", capfd)["uncaptured"] == []
        assert "not captured" not in call("run.trace", capfd)

    def test_a_folder_that_cannot_be_written(self, folder: Path) -> None:
        """Trace and working folder are read-only, and the user has not asked for stored results."""
        program = [sys.executable, "-c", "from tensordash_cli.main import run; run()", "simulate", "run.trace"]
        command = shlex.join(program)
        expected = subprocess.run([*program, "--json", "-o", "kept"], cwd=folder, capture_output=True, text=True)
        assert expected.returncode == 0, expected.stderr
        script = f"{command} --json || exit 1; {command} -o elsewhere; test $? = 2"
        if os.geteuid() == 0:  # Root ignores permissions.
            locked = [
                "unshare",
                "-m",
                "sh",
                "-c",
                f"mount --bind . . && mount -o remount,ro,bind . && cd . && {script}",
            ]
            if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
                pytest.skip("root, and no namespace of mounts")
        else:
            locked = ["sh", "-c", f"chmod -R a-w . && {{ {script}; }}"]
        try:
            done = subprocess.run(locked, cwd=folder, capture_output=True, text=True)
        finally:
            subprocess.run(["chmod", "-R", "u+w", folder], check=True)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == json.loads(expected.stdout)
        assert "build cannot be written: results are not stored" in done.stderr
        assert "Read-only file system" in done.stderr or "Permission denied" in done.stderr

    def test_json(self, folder: Path, capfd: Capture) -> None:
        document = call_json("run.trace", capfd)
        assert document["trace"] == {
            "path": "run.trace",
            "digest": Trace.open("run.trace").digest,
            "conditions": {"model": "small"},
        }
        assert document["machine"]["chip"] == ChipConfig().to_mapping()["chip"]
        assert document["machine"]["side"] == "sparser"
        operations = document["operations"]
        places = [(result["step"], result["layer"], result["operation"]) for result in operations]
        assert places == [(5, layer, op) for layer in ("conv[red]", "fc") for op in ("AxW", "WxG", "AxG")]
        assert {result["macs"] for result in operations} == {CONVOLUTION.macs, LINEAR.macs}
        assert list(document["totals"]) == ["AxW", "WxG", "AxG", "all"]
        for name, added in document["totals"].items():
            chosen = [result for result in operations if name in ("all", result["operation"])]
            for entry in ("macs", "dense_compute", "compute", "dense_cycles", "cycles"):
                assert added[entry] == sum(result[entry] for result in chosen)
            assert added["compute_speedup"] == added["dense_compute"] / added["compute"]
            assert added["energy"]["dram"] == pytest.approx(sum(result["energy"]["dram"] for result in chosen))

    def test_power_of_the_paper_is_provisional(self, folder: Path, capfd: Capture) -> None:
        assert "provisional" in call("run.trace", capfd)
        assert "provisional" not in call("run.trace --chip chip.toml", capfd)

    def test_csv(self, folder: Path, capfd: Capture) -> None:
        document = call_json("run.trace --csv table.csv", capfd)
        with Path("table.csv").open(newline="") as file:
            lines = list(csv.DictReader(file))
        assert len(lines) == 6
        for line, result in zip(lines, document["operations"], strict=True):
            assert (line["layer"], line["operation"]) == (result["layer"], result["operation"])
            assert int(line["cycles"]) == result["cycles"]
            assert float(line["energy.core"]) == result["energy"]["core"]
            assert float(line["idle.waits"]) == result["idle"]["waits"]
        assert not list(Path().glob("*.partial"))

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ("--layer fc", [("fc", "AxW"), ("fc", "WxG"), ("fc", "AxG")]),
            ("--op AxG", [("conv[red]", "AxG"), ("fc", "AxG")]),
            ("--op AxG --op AxW --layer conv[red]", [("conv[red]", "AxW"), ("conv[red]", "AxG")]),
        ],
    )
    def test_filters(self, options: str, expected: list[tuple[str, str]], folder: Path, capfd: Capture) -> None:
        document = call_json(f"run.trace {options}", capfd)
        assert [(result["layer"], result["operation"]) for result in document["operations"]] == expected
        assert list(document["totals"]) == [*dict.fromkeys(op for _, op in expected), "all"]
        full = {
            (result["layer"], result["operation"]): result for result in call_json("run.trace", capfd)["operations"]
        }
        assert document["operations"] == [full[place] for place in expected]

    def test_machine(self, folder: Path, capfd: Capture) -> None:
        document = call_json(
            "tile.toml run.trace --chip chip.toml --side right --row-order density --set tile.columns=3", capfd
        )
        machine = document["machine"]
        assert (machine["tile"]["rows"], machine["tile"]["columns"], machine["chip"]["tiles"]) == (2, 3, 2)
        assert (machine["side"], machine["row_order"]) == ("right", "density")
        assert [result["scheduled"] for result in document["operations"]] == ["W", "G", "G"] * 2

    def test_another_order_is_shown_next_to_the_natural_one(self, folder: Path, capfd: Capture) -> None:
        natural = call_json("run.trace", capfd)
        assert "natural_totals" not in natural
        density = call_json("run.trace --row-order density", capfd)
        assert density["natural_totals"] == natural["totals"]
        assert density["operations"] != natural["operations"]
        assert "natural" in call("run.trace --row-order density", capfd).partition("\n")[0]

    def test_dropped_steps_are_shown_beside_the_tile(self, folder: Path, capfd: Capture) -> None:
        plain, document = call_json("run.trace", capfd), call_json("run.trace --drop-steps", capfd)
        total = document["totals"]["all"]
        assert total.pop("dropped_speedup") == total["dense_compute"] / total.pop("dropped")
        assert total == plain["totals"]["all"]
        header = call("run.trace --drop-steps", capfd).splitlines()[0]
        assert "drop steps" in header
        assert "drop steps" not in call("run.trace", capfd)

    def test_dense_tile_equals_its_baseline(self, folder: Path, capfd: Capture) -> None:
        added = call_json("--preset dense run.trace", capfd)["totals"]["all"]
        assert added["compute_speedup"] == added["speedup"] == added["energy_ratio"] == 1

    def test_a_second_run_reads_results(self, folder: Path, capfd: Capture) -> None:
        """The second run does not read the masks."""
        first = call_json("run.trace -o kept --threads 1", capfd)
        (file,) = Path("kept/simulate").iterdir()
        before = file.stat().st_mtime_ns
        for chunk in Path("run.trace").glob("arrays-*/mask-*/c/0"):
            chunk.unlink()
        assert call_json("run.trace -o kept", capfd) == first
        assert file.stat().st_mtime_ns == before
        call("run.trace -o elsewhere", capfd, status=2)

    def test_interrupted(self, folder: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
        operations_left = 3
        original = results.simulate_operation

        def interrupted(*arguments: Any) -> Any:
            nonlocal operations_left
            operations_left -= 1
            if operations_left < 0:
                raise KeyboardInterrupt
            return original(*arguments)

        monkeypatch.setattr(results, "simulate_operation", interrupted)
        assert call("run.trace", capfd, status=130) == "tensordash: interrupted"
        assert call("run.trace", capfd, status=130) == "tensordash: interrupted"
        operations_left = 3
        document = call_json("run.trace", capfd)
        assert operations_left == 0
        operations_left = 6
        assert call_json("run.trace -o elsewhere", capfd) == document

    def test_damage(self, folder: Path, capfd: Capture) -> None:
        record = list(Trace.open("run.trace").records)[4]
        chunk = record.arrays / f"mask-{record.operands['G'].mask}" / "c" / "0"
        data = bytearray(chunk.read_bytes())
        data[len(data) // 2] ^= 1
        chunk.write_bytes(data)
        for option in ("", " --json"):
            complaint = call(f"run.trace{option}", capfd, status=2)
            assert complaint.startswith("tensordash: run.trace: step 5, layer fc, WxG, operand G: mask: ")
            assert "damaged" in complaint
        assert len(call_json("run.trace --layer conv[red]", capfd)["operations"]) == 3
