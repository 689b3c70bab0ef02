"""Tables of a design's ports, as Markdown: names and widths from the component, what they are for from here."""

import re
from collections.abc import Iterable

__all__ = ["describe_port", "port_table"]

# By the port's name, with R and C for the numbers of rows and columns, and S for either.
CLOCKED = {"clk": "rising edge", "rst": "synchronous reset, safe at any cycle"}

COUNTED = {
    "cycles": "counter: cycles with a schedule",
    "steps": "counter: dense steps consumed",
    "effectual": "counter: positions consumed, over all rows",
    "stall_input": "counter: cycles without a schedule for want of input",
    "stall_output": "counter: cycles frozen because results wait",
    "input_limited": "counter: schedules that missing steps bounded",
    "row_wait": "a counter per row, row 0 lowest: steps that it waited for the slowest row",
    "protocol_error": "sticky: ports disagreed on the end of a stream, or C's `last` on the end of a block",
    "non_finite": "sticky: an infinity or NaN came in",
    "overflow": "sticky: an exact accumulator or an INT32 result overflowed",
    "result_non_finite": "sticky: a result left as an infinity or NaN",
    "idle": "nothing is in flight: all that came in has left",
    "clear": "counters and flags are zero in the next cycle",
    "snapshot": "the counters' ports show, from the next cycle on, what was counted up to this one",
}

AXI_LITE = {
    "s_axi_awaddr": "registers (AXI4-Lite): address of a write, in bytes; the lowest two bits do not matter",
    "s_axi_awprot": "does not matter",
    "s_axi_awvalid": "an address of a write is offered",
    "s_axi_awready": "it is taken, together with the data, in the cycle after both are there",
    "s_axi_wdata": "what is written",
    "s_axi_wstrb": "which bytes of it",
    "s_axi_wvalid": "data are offered",
    "s_axi_wready": "they are taken, as `s_axi_awready`",
    "s_axi_bresp": "OKAY, always",
    "s_axi_bvalid": "a write is answered",
    "s_axi_bready": "the answer is taken",
    "s_axi_araddr": "address of a read, in bytes; the lowest two bits do not matter",
    "s_axi_arprot": "does not matter",
    "s_axi_arvalid": "an address of a read is offered",
    "s_axi_arready": "it is taken",
    "s_axi_rdata": "what is read",
    "s_axi_rresp": "OKAY, always",
    "s_axi_rvalid": "there is an answer; it stays until it is taken",
    "s_axi_rready": "it is taken",
}

AXI4 = {
    "m_axi_arid": "memory (AXI4): 0 reads descriptors, 1 tensors",
    "m_axi_araddr": "address of a burst's first beat, a multiple of a beat's bytes",
    "m_axi_arlen": "beats, less one",
    "m_axi_arvalid": "an address of a read is offered; it stays until it is taken",
    "m_axi_arready": "it is taken",
    "m_axi_rid": "which read the beat is of; of one ID in order, of the two in any",
    "m_axi_rdata": "a beat",
    "m_axi_rresp": "2 and 3 are errors",
    "m_axi_rlast": "the burst's last beat",
    "m_axi_rvalid": "a beat is there; it must stay until it is taken",
    "m_axi_rready": "it is taken",
    "m_axi_awid": "0, always",
    "m_axi_awaddr": "address of a burst's first beat, a multiple of a beat's bytes",
    "m_axi_awlen": "beats, less one",
    "m_axi_awvalid": "an address of a write is offered; it stays until it is taken",
    "m_axi_awready": "it is taken",
    "m_axi_wdata": "a beat",
    "m_axi_wstrb": "which bytes of it are written",
    "m_axi_wlast": "the burst's last beat",
    "m_axi_wvalid": "a beat is offered; it stays until it is taken",
    "m_axi_wready": "it is taken",
    "m_axi_bid": "does not matter",
    "m_axi_bresp": "2 and 3 are errors",
    "m_axi_bvalid": "a burst is answered",
    "m_axi_bready": "the answer is taken",
    **{
        f"m_axi_{channel}{name}": meaning
        for channel in ("ar", "aw")
        for name, meaning in (
            ("size", "a whole beat, always"),
            ("burst", "INCR, always"),
            ("lock", "0, always"),
            ("cache", "`core.axi_cache`, always"),
            ("prot", "`core.axi_prot`, always"),
            ("qos", "0, always"),
        )
    },
}

MEANINGS = {
    "tile": {
        **CLOCKED,
        "a_C_steps": "steps offered to a column, {order}, lane 0 lowest in each",
        "b_R_steps": "steps offered to a row, the side whose zeros are skipped, {order}, lane 0 lowest in each",
        "a_C_scales": "the scale of each step offered, {order}",
        "b_R_scales": "the scale of each step offered, {order}",
        "S_available": "how many steps are offered",
        "S_last": "the step at `available - 1` ends its stream",
        "S_taken": "how many enter in this cycle: the same on every port; none in reset",
        "out_payload": "a beat of results, the first column of the first row lowest; top bit: the block's final beat",
        "out_valid": "there is a beat; it stays until it is taken",
        "out_ready": "the beat is taken",
        "c_payload": "a beat of C, as `out_payload`",
        "c_valid": "a beat of C is offered; it must stay until it is taken",
        "c_ready": "it is taken; depends on no input of the same cycle but `rst`",
        "head": "the line of the next step to enter, one-hot",
        **COUNTED,
    },
    "axi_stream_tile": {
        **CLOCKED,
        "s_axis_S_tdata": "steps, the oldest in the lowest bits, lane 0 lowest in each",
        "s_axis_S_tkeep": "bytes of the steps that are there: all, except in a stream's last beat, or none",
        "s_axis_S_tlast": "the beat ends its stream",
        "s_axis_S_tvalid": "a beat is offered; it must stay until it is taken",
        "s_axis_S_tready": "it is taken; low in reset",
        "s_axis_c_tdata": "a beat of C, as `m_axis_tdata`",
        "s_axis_c_tlast": "the final beat of a block of C",
        "s_axis_c_tvalid": "a beat of C is offered; it must stay until it is taken",
        "s_axis_c_tready": "it is taken; low in reset",
        "m_axis_tdata": "a beat of results, the first column of the first row lowest",
        "m_axis_tlast": "the block's final beat",
        "m_axis_tvalid": "there is a beat; it stays until it is taken",
        "m_axis_tready": "it is taken",
        **COUNTED,
        "protocol_error": f"{COUNTED['protocol_error']}, or a beat broke the rules",
    },
    "transposer": {
        **CLOCKED,
        "blocks_payload": "a block of `lanes` values; top bit: transpose its group (the group's first block decides)",
        "blocks_valid": "a block is offered",
        "blocks_ready": "it is taken",
        "out_payload": "a block of a group, as it came or transposed",
        "out_valid": "there is a block; it stays until it is taken",
        "out_ready": "it is taken",
    },
    "block_quantiser": {
        **CLOCKED,
        "values_payload": "FP32 numbers, as many as a step has; 32 in a row are a block",
        "values_valid": "they are offered",
        "values_ready": "they are taken",
        "out_payload": "a step: elements and, on top, their block's scale",
        "out_valid": "there is a step; it stays until it is taken, or for two cycles withdrawn after `start`",
        "out_ready": "it is taken",
        "rounding": "of elements: 0 to nearest even; 1 stochastically; 2 toward zero; must stay while a step waits",
        "seed": "of the random bits",
        "start": "they restart with this seed",
    },
    "core": {
        **CLOCKED,
        **AXI_LITE,
        **AXI4,
        "irq": "an interrupt: high as long as a cause stands that is enabled",
    },
}
"""Of each top: what its ports are for."""


def shared_name(name: str) -> tuple[str, int | None]:
    """The name of a port with C or R for the number of its column or row, and the number.

    >>> shared_name("b_3_last"), shared_name("irq")
    (('b_R_last', 3), ('irq', None))
    """
    found = re.fullmatch(r"(s_axis_|)([ab])(_?)(\d+)(_\w+)", name)
    if not found:
        return name, None
    return f"{found[1]}{found[2]}{found[3]}{'C' if found[2] == 'a' else 'R'}{found[5]}", int(found[4])


def describe_port(top: str, name: str, order: str) -> str:
    """What a port is for, in one line of Markdown.

    Parameters
    ----------
    top : str
        One of `MEANINGS`.
    name : str
        The port.
    order : str
        Where a tile's steps stand on its inputs.

    Raises
    ------
    KeyError
        For a port that `MEANINGS` lacks.
    """
    meanings = MEANINGS[top]
    shared, _ = shared_name(name)
    meaning = meanings.get(shared, meanings.get(re.sub(r"(s_axis_|^)[ab]_?[CR](_\w+)", r"\1S\2", shared)))
    if meaning is None:
        raise KeyError(f"{name} of {top}")
    return meaning.format(order=order)


def port_table(top: str, ports: Iterable[tuple[str, str, int]], order: str) -> str:
    """A Markdown table; ports that differ only in the number of their row or column share a line.

    Parameters
    ----------
    top : str
        One of `MEANINGS`.
    ports : iterable of (name, "input" or "output", bits)
        In the order of the table.
    order : str
        Where a tile's steps stand on its inputs.

    Raises
    ------
    KeyError
        For a port that `MEANINGS` lacks.

    Examples
    --------
    >>> ports = [("b_0_last", "input", 1), ("b_1_last", "input", 1), ("cycles", "output", 32)]
    >>> print(port_table("tile", ports, "oldest first"), end="")
    | port | direction | bits | what |
    |---|---|---|---|
    | `b_R_last`, R = 0 to 1 | in | 1 | the step at `available - 1` ends its stream |
    | `cycles` | out | 32 | counter: cycles with a schedule |
    """
    lines: dict[str, str] = {}
    highest: dict[str, int] = {}
    for name, direction, bits in ports:
        shared, number = shared_name(name)
        if number is not None:
            highest[shared] = max(number, highest.get(shared, 0))
        lines[shared] = f"{direction.removesuffix('put')} | {bits} | {describe_port(top, name, order)} |"
    rows = ["| port | direction | bits | what |", "|---|---|---|---|"]
    for shared, line in lines.items():
        numbers = f", {'R' if 'R' in shared else 'C'} = 0 to {highest[shared]}" if shared in highest else ""
        rows.append(f"| `{shared}`{numbers} | {line}")
    return "\n".join(rows) + "\n"
