"""Test campaigns on a Dask cluster, whose results the same command finds later without the cluster."""

import json
import math
import os
from dataclasses import replace

import pytest

from tensordash.configuration.preset import load_any_preset
from tensordash_cli.main import run
from tensordash_formal.proofs import PROOFS
from tensordash_sim.verify.soak import cores
from tensordash_storage.jobs import Job, Runner

pytestmark = pytest.mark.filterwarnings("default")  # Dask's sockets and event loops warn.
TILE = "--set tile.rows=1 --set tile.columns=1 --set tile.lanes=2 --set tile.depth=2 --set tile.connectivity=auto"
COMMANDS = {
    "soak": "--seed 2532 --positions 1 --simulator icarus",
    "soak --cores 1": "--positions 1 --descriptors 1 --faults 8",
    "mutate": f"--component scheduler --count 2 --effort 0.05 --no-proofs {TILE}",
    "mutate --by-hand": "--name macro-memories-less-other-logic",
    "prove": "--preset dense --set tile.rows=1 --set tile.columns=1 --set tile.lanes=2",
    "explore": "--depth 2 --sources 3 --rows 1 --columns 1 --staging shift --tries 2 --row-steps 50 --no-area",
    "evaluate fig15": "--scale tiny --no-synth",
}
AT_NIGHT = ("soak --cores 1", "mutate --by-hand", "explore", "evaluate fig15")
"""Commands that take more than some seconds."""


@pytest.fixture(scope="module")
def address():
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def small(monkeypatch):
    """Make campaigns short."""
    draw = cores.draw_core_job
    config = load_any_preset("core")  # Other tests have built it.
    monkeypatch.setattr(cores, "draw_core_job", lambda *arguments: replace(draw(*arguments), config=config))
    monkeypatch.setattr("tensordash_formal.suite.PROOFS", [each for each in PROOFS if each.name == "tile_control"])


@pytest.mark.parametrize(
    "command", [pytest.param(each, marks=pytest.mark.slow) if each in AT_NIGHT else each for each in COMMANDS]
)
def test_a_command(command, address, small, tmp_path, capsys):
    def document(*options: str):
        arguments = f"{command} {COMMANDS[command]} -o {tmp_path} --json"
        with pytest.raises(SystemExit) as stop:
            run([*arguments.split(), *options])
        out, err = capsys.readouterr()
        assert not stop.value.code, err
        return json.loads(out)

    found = document("--cluster", address)
    assert document("--jobs", "1") == found
    assert found


@pytest.mark.parametrize("command", COMMANDS)
def test_without_dask_nothing_starts(command, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("tensordash.extras.find_spec", lambda module: None if module == "distributed" else module)
    folder = tmp_path / "answers"
    with pytest.raises(SystemExit) as stop:
        run(f"{command} {COMMANDS[command]} -o {folder} --cluster tcp://nowhere:1".split())
    assert stop.value.code == 2
    assert capsys.readouterr().err == "tensordash: --cluster needs the extra cluster: pip install '.[cluster]'\n"
    assert not folder.exists()


def test_workers_return_answers_and_exceptions(address):
    runner = Runner(cluster=address)
    assert dict(runner.run([Job("process", os.getpid)])) != {"process": os.getpid()}
    answers = runner.run([Job(str(n), math.factorial, (n,)) for n in range(20)])
    assert dict(answers) == {str(n): math.factorial(n) for n in range(20)}
    with pytest.raises(ValueError, match="factorial"):
        dict(runner.run([Job("3", math.factorial, (3,)), Job("wrong", math.factorial, (-1,))]))
