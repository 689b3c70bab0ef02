"""A FuseSoC core file (CAPI2) for a folder of emitted Verilog."""

import re
from collections.abc import Iterable

from ..version import __version__

__all__ = ["core_file"]

CORE = """\
CAPI=2:
# fusesoc --cores-root FOLDER run --target=lint {prefix}   (lint and sim_verilator: with verilator on the PATH)
name: ::{prefix}:{version}
description: TensorDash tile, configuration {digest}

filesets:
  rtl:
    files: [{prefix}.v, {prefix}_transposer.v]
    file_type: verilogSource-2005
  waivers:
    files: [{prefix}.vlt]
    file_type: vlt
  assertions:
    files: [{prefix}_assertions.sv]
    file_type: systemVerilogSource
  tile_constraints:
    files: [{prefix}_tile.sdc]
    file_type: SDC
  axi_stream_tile_constraints:
    files: [{prefix}_axi_stream_tile.sdc]
    file_type: SDC
{bench_fileset}
targets:
  default:
    filesets: [rtl, waivers, is_toplevel ? (tile_constraints)]
    toplevel: {prefix}_tile
  axi_stream:
    filesets: [rtl, waivers, is_toplevel ? (axi_stream_tile_constraints)]
    toplevel: {prefix}_axi_stream_tile
  lint:
    filesets: [rtl, waivers, assertions]
    flow: lint
    flow_options:
      tool: verilator
      verilator_options: [-Wall, --assert]
    toplevel: {prefix}_axi_stream_tile
{bench_target}"""

# What a testbench reads is copied to where the simulator runs.
BENCH_FILESET = """\
  bench:
    files:
{files}
"""

BENCH_TARGET = """\
  sim: &sim
    filesets: [rtl, waivers, bench]
    flow: sim
    flow_options:
      tool: icarus
    toplevel: {prefix}_tile_tb
  sim_verilator:
    <<: *sim
    filesets: [rtl, waivers, assertions, bench]
    flow_options:
      tool: verilator
      mode: binary
      verilator_options: [--assert, -CFLAGS, -std=c++20]
"""


def core_file(prefix: str, digest: str, bench: Iterable[str] = ()) -> str:
    """The core file: targets default, axi_stream and lint, and sim where there is a testbench.

    Parameters
    ----------
    prefix : str
        What file and module names begin with; also the core's name.
    digest : str
        Of the configuration.
    bench : iterable of str
        Names of a testbench's files: Verilog, whose module is ``PREFIX_tile_tb``, and what it reads.

    Source: FuseSoC, "CAPI2 reference".
    """
    bench = list(bench)
    listed = [
        f"      - {name}: {{file_type: {'verilogSource-2005' if name.endswith('.v') else f'user, copyto: {name}'}}}"
        for name in bench
    ]
    return CORE.format(
        prefix=prefix,
        # A source tree that is not installed has a version that FuseSoC cannot read.
        version=__version__ if re.fullmatch(r"\d+(\.\d+)*", __version__) else "0",
        digest=digest,
        bench_fileset=BENCH_FILESET.format(files="\n".join(listed)) if bench else "",
        bench_target=BENCH_TARGET.format(prefix=prefix) if bench else "",
    )
