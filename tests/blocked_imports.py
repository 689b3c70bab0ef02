"""Run commands in a process that cannot import some modules: read cases as JSON, and print their results."""

import io
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib.abc import MetaPathFinder

from tensordash_cli import console
from tensordash_cli.main import run


class Blocker(MetaPathFinder):
    """An import finder that raises for the modules, as if they were not installed."""

    def __init__(self, modules: Sequence[str]) -> None:
        self.modules = modules

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname.split(".")[0] in self.modules:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def run_case(modules: Sequence[str], arguments: Sequence[str]) -> dict[str, object]:
    """Run a command of `tensordash`; a traceback ends the process."""
    sys.meta_path.insert(0, Blocker(modules))
    out, err, began = io.StringIO(), io.StringIO(), time.monotonic()
    console.progress.file = err
    status: object = None
    with redirect_stdout(out), redirect_stderr(err):
        try:
            run(list(arguments))
        except SystemExit as end:
            status = end.code or 0
    return {"status": status, "out": out.getvalue(), "err": err.getvalue(), "seconds": time.monotonic() - began}


def main() -> None:
    """Run each case in a process of its own, which has imported no optional module yet."""
    for modules, arguments in json.load(sys.stdin):
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.close(reading)
            with os.fdopen(writing, "w", encoding="utf-8") as pipe:
                json.dump(run_case(modules, arguments), pipe)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as pipe:
            text = pipe.read()
        os.wait()
        print(text or json.dumps({"status": None, "out": "", "err": "traceback", "seconds": 0}), flush=True)


if __name__ == "__main__":
    main()
