"""LibreLane configuration for a top: a layout flow from its Verilog, not tried in this project."""

from collections.abc import Iterable, Mapping
from typing import Any

from .constraints import PERIOD_NS

__all__ = ["librelane"]

HEAD = """\
# LibreLane, flow Classic: librelane {name}   (not tried here: no PDK comes with this package)
# The constraints have the same period: change both, to what your cells reach.
meta:
  version: 2
  flow: Classic
DESIGN_NAME: {top}
VERILOG_FILES:
{verilog}
CLOCK_PORT: clk
CLOCK_PERIOD: {period}
PNR_SDC_FILE: dir::{sdc}
SIGNOFF_SDC_FILE: dir::{sdc}
# Thousands of port bits may need more room at the edge than the cells need inside.
FP_SIZING: relative
FP_CORE_UTIL: 40
PL_TARGET_DENSITY_PCT: 50
"""

MACROS = """\
# The last file has memories as registers. To use macros, leave it out, and list modules with the same names and ports,
# each around a macro of your PDK, as docs/integration.md shows ("Memories as macros"):
# MACROS:
"""
MACRO = """\
#   {module}:   # {words} words of {bits} bits, {ports}; instances: {instances}
#     gds: [dir::macros/{module}.gds]
#     lef: [dir::macros/{module}.lef]
#     lib: {{"*": [dir::macros/{module}.lib]}}
"""


def librelane(name: str, top: str, verilog: Iterable[str], sdc: str, memories: Iterable[Mapping[str, Any]] = ()) -> str:
    """Return the configuration, in YAML.

    Parameters
    ----------
    name : str
        Name of the configuration's file.
    top : str
        The module.
    verilog : iterable of str
        Verilog files, the memories' last.
    sdc : str
        The file of the constraints.
    memories : iterable of mappings
        A core's memories as in ``config.json``, listed as macros that can replace them.

    Examples
    --------
    >>> text = librelane("m.yaml", "m", ["m.v"], "m.sdc")
    >>> [line for line in text.splitlines() if line.startswith(("DESIGN", "  - ", "CLOCK"))]
    ['DESIGN_NAME: m', '  - dir::m.v', 'CLOCK_PORT: clk', 'CLOCK_PERIOD: 2.0']

    Source: LibreLane, "Universal Flow Configuration Variables".
    """
    files = "\n".join(f"  - dir::{file}" for file in verilog)
    text = HEAD.format(name=name, top=top, verilog=files, period=PERIOD_NS, sdc=sdc)
    listed = [
        MACRO.format(**{**each, "ports": "one port for both" if "both" in each["ports"] else "write and read port"})
        for each in memories
    ]
    return text + (MACROS + "".join(listed) if listed else "")
