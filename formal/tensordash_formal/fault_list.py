"""Load the handwritten faults from the TOML files in `faults/`.

An entry of a file::

    [[fault]]
    name = "nan-scale-of-b"          # unique in all files
    component = "block_scales"       # what --component selects
    file = "hdl/tensordash/tile/status.py"   # from the repository root
    old = '''text'''                 # must occur exactly once in the file
    new = '''other text'''
    why = "A NaN scale of B is ignored if the scale of A is 254."
    found_by = ["tests/hdl/test_components.py::test_scales", "tensordash verify --preset mxfp8 --bench pe"]

`why` describes what the fault does wrong. Each check in `found_by` must fail with the fault and pass without it.
There are two kinds of checks. Both are written as on a command line in the repository root:

- pytest node ids, without `pytest`: the bench of a unit, a test, a doctest; options such as `-k` may follow;
- a `tensordash` command (`tensordash verify ...`, `tensordash prove ...`): its exit status is 1 if a check fails.
"""

import random
import shlex
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path

from tensordash import TensorDashError

__all__ = ["Fault", "FaultFileError", "faults_table", "load_faults", "sample_faults", "select_faults", "with_table"]

MARKS = "<!-- faults -->\n", "<!-- /faults -->\n"
"""Lines of a page before and after the table."""
FOLDER = Path(__file__).parent / "faults"
MAX_LISTED_NAMES = 100
"""An error message lists at most this many names."""


class FaultFileError(TensorDashError, ValueError):
    """Raised if a fault file or the page of faults is wrong. The message is one line."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One wrong edit of a source file.

    Parameters
    ----------
    name : str
        Unique name.
    component : str
        Component that contains the fault.
    file : str
        Path of the source file, from the repository root.
    old, new : str
        Text that occurs exactly once in the file, and its replacement.
    why : str
        What the fault does wrong.
    found_by : tuple of str
        Checks that find the fault; see the module's docstring.
    """

    name: str
    component: str
    file: str
    old: str
    new: str
    why: str
    found_by: tuple[str, ...]

    def apply(self, root: Path) -> bool:
        """Edit the file below a root and return True. If `old` does not occur exactly once, only return False."""
        path = root / self.file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if text.count(self.old) != 1:
            return False
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")
        for bytecode in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            bytecode.unlink()
        return True


def load_faults(folder: Path = FOLDER) -> tuple[Fault, ...]:
    """Read the faults of all files in a folder.

    Raises
    ------
    FaultFileError
        If a file is not TOML, an entry has a missing, unknown or empty field, or a name is used twice.
    """
    faults: list[Fault] = []
    for path in sorted(folder.glob("*.toml")):
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise FaultFileError(f"{path.name}: {error}") from None
        if set(document) - {"fault"}:
            raise FaultFileError(f"{path.name}: only [[fault]] is allowed, not {min(set(document) - {'fault'})!r}")
        faults += [_entry(path.name, number, entry) for number, entry in enumerate(document.get("fault", []), 1)]
    names = [fault.name for fault in faults]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise FaultFileError(f"fault names must be unique, {min(repeated)!r} is not")
    return tuple(faults)


def _entry(file: str, number: int, entry: dict[str, object]) -> Fault:
    where = f"{file}: fault {number} ({entry.get('name', 'without a name')})"
    known = [field.name for field in fields(Fault)]
    if set(entry) != set(known):
        raise FaultFileError(f"{where}: must have the fields {', '.join(known)}, not {', '.join(entry) or 'none'}")
    checks = entry["found_by"]
    if not isinstance(checks, list) or not checks or not all(isinstance(each, str) and each for each in checks):
        raise FaultFileError(f"{where}: found_by must be a list of checks")
    texts = {name: entry[name] for name in known if name != "found_by"}
    for name, text in texts.items():
        if not isinstance(text, str) or not (text or name == "new"):
            raise FaultFileError(f"{where}: {name} must be a text")
    if texts["old"] == texts["new"]:
        raise FaultFileError(f"{where}: new must differ from old")
    for check in checks:
        kind = shlex.split(check)[0]
        if kind != "tensordash" and ".py" not in kind:
            raise FaultFileError(f"{where}: found_by must have pytest node ids or tensordash commands, not {check!r}")
    return Fault(**{name: str(text) for name, text in texts.items()}, found_by=tuple(checks))


def select_faults(
    faults: Sequence[Fault], components: Sequence[str] = (), names: Sequence[str] = ()
) -> tuple[Fault, ...]:
    """Select the faults of some components or with some names. Select all faults if both are empty.

    Raises
    ------
    ValueError
        If a component or name is unknown.
    """
    for option, wanted, known in (
        ("--component", components, {fault.component for fault in faults}),
        ("--name", names, {fault.name for fault in faults}),
    ):
        if unknown := set(wanted) - known:
            name = min(unknown)
            listed = f"one of {', '.join(sorted(known)) or 'nothing'}"
            if len(known) > MAX_LISTED_NAMES:
                listed = f"one of the {len(known)} names that --list --json prints"
                close = get_close_matches(name, known, cutoff=0.4)
                listed += f" (closest: {', '.join(close)})" if close else ""
            raise ValueError(f"{option} must be {listed}, not {name!r}")
    if not components and not names:
        return tuple(faults)
    return tuple(fault for fault in faults if fault.component in components or fault.name in names)


def sample_faults(faults: Sequence[Fault], count: int, seed: int) -> tuple[Fault, ...]:
    """Draw `count` faults at random, or all if there are fewer. Keep the order of the files."""
    chosen = set(random.Random(seed).sample(range(len(faults)), min(count, len(faults))))
    return tuple(fault for number, fault in enumerate(faults) if number in chosen)


def faults_table(faults: Sequence[Fault]) -> str:
    """Format the faults as the Markdown table of docs/faults.md."""
    lines = ["| component | fault | found by |", "|---|---|---|"]
    for fault in faults:
        checks = ", ".join(f"`{check}`" for check in fault.found_by).replace("|", "\\|")
        lines.append(f"| {fault.component} | {fault.why} | {checks} |")
    return "\n".join(lines)


def with_table(page: str, faults: Sequence[Fault]) -> str:
    """Replace the table between the marks of a Markdown page.

    Raises
    ------
    FaultFileError
        If the page does not have each mark exactly once.
    """
    if any(page.count(mark) != 1 for mark in MARKS):
        raise FaultFileError(f"the page must have the lines {' and '.join(mark.strip() for mark in MARKS)} once")
    before, _, rest = page.partition(MARKS[0])
    return f"{before}{MARKS[0]}{faults_table(faults)}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}"
