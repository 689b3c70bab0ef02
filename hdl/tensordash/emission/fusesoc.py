"""FuseSoC core file (CAPI2) for a folder of emitted Verilog."""

from collections.abc import Collection, Iterable, Mapping

from ..version import NUMERIC_VERSION

__all__ = ["core_file", "core_of_core"]

HEAD = """\
CAPI=2:
# fusesoc --cores-root FOLDER run --target=lint {prefix}
# lint and sim_verilator run the verilator on the PATH, sim runs iverilog, and synth runs yosys (for ECP5).
name: ::{prefix}:{version}
description: TensorDash {top}, configuration {digest}

filesets:
  rtl:
    files: [{files}]
    file_type: verilogSource-2005
"""

WAIVERS = """\
  waivers:
    files: [{prefix}.vlt]
    file_type: vlt
"""

LINT_AND_SYNTH = """\
  lint:
    filesets: [{rtl}, ip, waivers{assertions}]
    flow: lint
    flow_options:
      tool: verilator
      verilator_options: [{lint_options}]
    toplevel: {prefix}_{outer}_ip
  synth:
    filesets: [{rtl}]
    flow: generic
    flow_options:
      tool: yosys
      arch: ecp5
      output_format: json
    toplevel: {prefix}_{outer}
{bench_target}"""

CORE = f"""\
{HEAD}{WAIVERS}\
  assertions:
    files: [{{prefix}}_assertions.sv]
    file_type: systemVerilogSource
  tile_constraints:
    files: [{{prefix}}_tile.sdc]
    file_type: SDC
  axi_stream_tile_constraints:
    files: [{{prefix}}_axi_stream_tile.sdc]
    file_type: SDC
  ip:
    files: [{{prefix}}_axi_stream_tile_ip.v]
    file_type: verilogSource-2005
{{bench_fileset}}
targets:
  default:
    filesets: [rtl, ip, waivers, is_toplevel ? (tile_constraints)]
    toplevel: {{prefix}}_tile
  axi_stream:
    filesets: [rtl, ip, waivers, is_toplevel ? (axi_stream_tile_constraints)]
    toplevel: {{prefix}}_axi_stream_tile
{LINT_AND_SYNTH}"""

CORE_OF_CORE = f"""\
{HEAD}\
  # Memories as registers. The flag `macros` leaves them out, if macros with the same names replace them.
  memories:
    files: [{{prefix}}_memories.v]
    file_type: verilogSource-2005
{WAIVERS}\
  constraints:
    files: [{{prefix}}_core.sdc]
    file_type: SDC
  ip:
    files: [{{prefix}}_core_ip.v]
    file_type: verilogSource-2005
  software:
    files:
      - {{prefix}}.h: {{{{is_include_file: true}}}}
      - {{prefix}}_driver.h: {{{{is_include_file: true}}}}
      - {{prefix}}_driver.c
    file_type: cSource
{{bench_fileset}}
targets:
  default:
    filesets: [rtl, "!macros ? (memories)"{{more}}, ip, waivers, is_toplevel ? ({{constraints}})]
    toplevel: {{prefix}}_{{default}}
{LINT_AND_SYNTH}"""

MULTICORE_FILESETS = """\
  multicore:
    files: [{prefix}_multicore.v]
    file_type: verilogSource-2005
  multicore_constraints:
    files: [{prefix}_multicore.sdc]
    file_type: SDC
  multicore_software:
    files:
      - {prefix}_multicore.h: {{is_include_file: true}}
    file_type: cSource
"""

MULTICORE_LINT = """\
  lint_multicore:
    filesets: [{rtl}, waivers]
    flow: lint
    flow_options:
      tool: verilator
      verilator_options: [{lint_options}]
    toplevel: {prefix}_multicore
"""

# Files that a testbench reads are copied to the simulator's working folder.
BENCH_FILESET = """\
  {bench}:
    files:
{bench_files}
"""

BENCH_TARGET = """\
  {sim}: &{sim}
    filesets: [{rtl}, waivers, {bench}]
    flow: sim
    flow_options:
      tool: icarus
    toplevel: {prefix}_{top}_tb
  {sim}_verilator:
    <<: *{sim}
    filesets: [{rtl}, waivers{assertions}, {bench}]
    flow_options:
      tool: verilator
      mode: binary
      verilator_options: [{options}-CFLAGS, -std=c++20]
"""


def core_file(prefix: str, digest: str, verilog: Iterable[str], bench: Iterable[str] = ()) -> str:
    """Return the core file: targets default, axi_stream, lint and synth, and simulations if there is a testbench.

    Parameters
    ----------
    prefix : str
        Prefix of file and module names; also the core file's name.
    digest : str
        Digest of the configuration.
    verilog : iterable of str
        Names of the hardware's files.
    bench : iterable of str
        Names of a testbench's files: Verilog, whose module is ``PREFIX_tile_tb``, and the files that it reads.

    Source: FuseSoC, "CAPI2 reference".
    """
    made = {"rtl": "rtl", "top": "tile", "assertions": ", assertions", "options": "--assert, "}
    made |= {"files": ", ".join(verilog), "lint_options": "-Wall, --assert", "outer": "axi_stream_tile"}
    return _filled(CORE, made, prefix, digest, bench)


def core_of_core(prefix: str, digest: str, bench: Collection[str] = (), cores: int = 1) -> str:
    """Return the core file of a core: targets default, lint and synth, and simulations if there is a testbench.

    Parameters
    ----------
    prefix, digest
        As in `core_file`.
    bench : iterable of str
        Names of testbenches' files, whose modules are ``PREFIX_core_tb`` and ``PREFIX_multicore_tb``.
    cores : int
        With several cores, `default` is the multicore, and there is a target lint_multicore.
    """
    made = {"rtl": "rtl, memories", "top": "core", "assertions": "", "options": ""}
    made |= {"files": f"{prefix}.v", "lint_options": "-Wall", "outer": "core"}
    if cores == 1:
        made |= {"default": "core", "more": "", "constraints": "constraints"}
        return _filled(CORE_OF_CORE, made, prefix, digest, bench)
    made |= {"default": "multicore", "more": ", multicore", "constraints": "multicore_constraints"}
    of_several = [name for name in bench if name.startswith(f"{prefix}_multicore_tb")]
    names = {"bench": "multicore_bench", "sim": "sim_multicore", "rtl": "rtl, memories, multicore", "top": "multicore"}
    several = made | names | {"prefix": prefix}
    fileset, target = _simulation(several, of_several)
    more = MULTICORE_FILESETS.format(**several) + fileset, MULTICORE_LINT.format(**several) + target
    return _filled(CORE_OF_CORE, made, prefix, digest, [name for name in bench if name not in of_several], more)


def _filled(
    template: str,
    made: Mapping[str, str],
    prefix: str,
    digest: str,
    bench: Iterable[str],
    more: tuple[str, str] = ("", ""),
) -> str:
    """Fill a template; `more` are filesets and targets that follow those of the testbench."""
    made = {"bench": "bench", "sim": "sim", "prefix": prefix, **made}
    fileset, target = _simulation(made, list(bench))
    return template.format(
        version=NUMERIC_VERSION, digest=digest, bench_fileset=fileset + more[0], bench_target=target + more[1], **made
    )


def _simulation(made: Mapping[str, str], bench: Collection[str]) -> tuple[str, str]:
    """Return the fileset and the targets of a testbench; both are empty if it has no files."""
    if not bench:
        return "", ""
    files = "\n".join(
        f"      - {name}: {{file_type: {'verilogSource-2005' if name.endswith('.v') else f'user, copyto: {name}'}}}"
        for name in bench
    )
    return BENCH_FILESET.format(bench_files=files, **made), BENCH_TARGET.format(**made)
