"""`tensordash trace`: record the products of a training script or of a built-in network."""

import contextlib
import runpy
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

from tensordash import TensorDashError

from .console import CheckError, WholeRange, explicit_parameters, json_option, print_json, progress

if TYPE_CHECKING:
    from tensordash_sim.trace import Recorder, Trace

__all__ = ["command"]


class _AllStepsRecorded(BaseException):
    """End of a script after the last step to record; an `except Exception` of the script does not catch it."""


@click.command("trace")
@click.argument("script", metavar="[SCRIPT.py]", type=Path, required=False)
@click.argument("arguments", metavar="[-- ARGUMENT...]", nargs=-1, type=click.UNPROCESSED)
@click.option("-o", "--output", metavar="RUN.trace", type=Path, help="Folder to write to.")
@click.option("--steps", metavar="N", type=WholeRange(min=1), help="Record N steps (default: all; --model: one).")
@click.option("--every", metavar="K", type=WholeRange(min=1), default=1, help="Record every K-th step only.")
@click.option("--stop", is_flag=True, help="End the script after --steps recorded steps.")
@click.option("--layer", "layers", metavar="PATTERN", multiple=True, help="Only these layers (*, ?); may be repeated.")
@click.option("--values", is_flag=True, help="Store values, not only masks of zeros.")
@click.option("--overwrite", is_flag=True, help="Replace RUN.trace if it is a trace.")
@click.option("--list", "listing", is_flag=True, help="Show the built-in networks.")
@click.option("--model", metavar="NAME", help="Instead of SCRIPT: train a built-in network.")
@click.option(
    "--scale", default="small", show_default=True, help="With --model: size of the network: full, small or tiny."
)
@click.option(
    "--seed", type=WholeRange(min=0), default=0, show_default=True, help="With --model: seed of data and weights."
)
@click.option(
    "--after", metavar="N", type=WholeRange(min=0), default=0, help="With --model: train N steps before recording."
)
@click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="With --model: change a setting, for instance sparsity=0.5.",
)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool, output: Path | None, **parameters: Any) -> None:
    """Run a training script of PyTorch, unchanged, and record the products of its steps.

    With --model, train a built-in network instead, and show its zeros next to the paper's.

    A step ends when an optimizer has stepped. Exit status 1 if the script fails; RUN.trace then holds the complete
    steps. docs/trace.md lists what is captured, docs/models.md the networks.
    """
    from . import networks

    source = _source(context)
    if source == "--list":
        networks.show(as_json)
        return
    if output is None:
        raise click.UsageError("-o RUN.trace is missing: the folder to write to")
    options = {name: parameters[name] for name in ("every", "values", "overwrite")} | {
        "layers": parameters["layers"] or None
    }
    if source == "--model":
        settings = {name: parameters[name] for name in ("scale", "seed", "after", "settings")}
        networks.train(output, parameters["model"], steps=parameters["steps"] or 1, **settings, **options)
    else:
        _record_script(
            output,
            parameters["script"],
            parameters["arguments"],
            parameters["steps"],
            parameters["stop"],
            as_json,
            options,
        )
    _report(output, parameters["model"], as_json)


def _source(context: click.Context) -> str:
    """Return the requested source; raise a usage error for options of the others."""
    explicit = explicit_parameters(context)
    changed = {option.name for option in explicit}
    of_source = {"script": "SCRIPT.py", "model": "--model", "listing": "--list"}
    chosen = [text for name, text in of_source.items() if name in changed]
    if len(chosen) != 1:
        raise click.UsageError(f"give one of SCRIPT.py, --model and --list, not {' and '.join(chosen) or 'none'}")
    common = {"output", "steps", "every", "layers", "values", "overwrite"}
    allowed = {
        "SCRIPT.py": {"script", "arguments", "stop", *common},
        "--model": {"model", "scale", "seed", "after", "settings", *common},
        "--list": {"listing"},
    }
    for option in explicit:
        if option.name not in allowed[chosen[0]] | {"as_json"}:
            raise click.UsageError(f"{option.opts[-1]} does not go with {chosen[0]}")
    return chosen[0]


def _record_script(
    output: Path,
    script: Path,
    arguments: tuple[str, ...],
    steps: int | None,
    stop: bool,
    as_json: bool,
    options: dict[str, Any],
) -> None:
    from tensordash_sim.trace import record

    if not script.is_file():
        raise click.UsageError(f"SCRIPT must be a file{', and this does not exist' * (not script.exists())}: {script}")
    if stop and steps is None:
        raise click.UsageError("--stop needs --steps")
    conditions = {"script": script.name, "arguments": " ".join(arguments)}
    recorder = record(output, steps=steps, conditions=conditions, **options)
    # With --json, stdout has one document only, so the script's own output goes to stderr.
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        problem = _run(script, arguments, recorder, stop)
    if problem is None and not recorder.recorded:
        problem = f"has run, and {recorder.shortage}"
    if problem is not None:
        outcome = f"{output} holds {_count(recorder.recorded, 'step')}" if recorder.recorded else "nothing was recorded"
        raise CheckError(f"{script} {problem}; {outcome}")


def _run(script: Path, arguments: tuple[str, ...], recorder: "Recorder", stop: bool) -> str | None:
    """Run the script as `python SCRIPT` does and record it; return a description of its failure, if it failed."""
    before = sys.argv, sys.path[:]
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        with warnings.catch_warnings(), recorder, _stopped(recorder, stop):
            warnings.filterwarnings("ignore", ".*nothing was recorded")  # The command raises an error instead.
            try:
                runpy.run_path(str(script), run_name="__main__")
            except SystemExit as end:
                if end.code not in (None, 0):
                    raise
    except SystemExit as end:
        return f"ended with exit status {end.code}" if isinstance(end.code, int) else f"ended: {end.code}"
    except TensorDashError:
        raise  # The recording's own error is printed as one line.
    except KeyboardInterrupt:
        if recorder.recorded:
            progress.print(f"{recorder.path} holds {_count(recorder.recorded, 'step')}", markup=False)
        raise
    except Exception as error:
        _print_traceback(error, script)
        return f"failed: {type(error).__name__}: {error}"
    finally:
        sys.argv, sys.path[:] = before
    return None


@contextlib.contextmanager
def _stopped(recorder: "Recorder", stop: bool) -> Iterator[None]:
    """With `stop`, end the block after the last step to record."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def end(optimizer: Any, args: Any, kwargs: Any) -> None:
        if stop and recorder.finished:
            raise _AllStepsRecorded

    handle = register_optimizer_step_post_hook(end)
    try:
        yield
    except _AllStepsRecorded:
        pass
    finally:
        handle.remove()


def _print_traceback(error: Exception, script: Path) -> None:
    """Print a traceback as Python does, from the script on."""
    frames: TracebackType | None = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != str(script):
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames or error.__traceback__, file=sys.stderr)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _report(path: Path, model: str | None, as_json: bool) -> None:
    from tensordash_sim.trace import Trace

    from . import networks

    trace = Trace.open(path)
    document = _document(trace) | ({} if model is None else networks.document(trace, model))
    if as_json:
        print_json(document)
        return
    counts = (len(document["steps"]), "step"), (len(document["layers"]), "layer"), (document["records"], "record")
    click.echo(f"{document['path']}: {', '.join(_count(*count) for count in counts)}")
    for operation, steps in document["uncaptured"].items():
        click.echo(f"not captured, in {_count(steps, 'step')}: {operation}")
    if model is not None:
        networks.print_zeros(document)


def _document(trace: "Trace") -> dict[str, Any]:
    uncaptured = Counter(operation for step in trace.steps for operation in step.uncaptured)
    return {
        "path": str(trace.path),
        "digest": trace.digest,
        "steps": [step.index for step in trace.steps],
        "layers": list(dict.fromkeys(record.layer for record in trace.records)),
        "records": sum(len(step.records) for step in trace.steps),
        "uncaptured": dict(uncaptured),
    }
