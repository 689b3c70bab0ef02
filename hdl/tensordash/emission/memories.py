"""Memories in a module's text: without contents at power-up, and with a read register that has a name."""

import re

__all__ = ["named_reads", "without_contents"]

CONTENTS = re.compile(r"^  cell \$meminit_v2 .*?^  end\n", re.MULTILINE | re.DOTALL)
READ = re.compile(r"^    if \((\w+)\) begin\n      (_\d+_) <= (\w+\[\w+\]);\n    end\n", re.MULTILINE)


def without_contents(text: str) -> str:
    """RTLIL of one module without what its memories hold at power-up.

    Amaranth gives every memory contents; no macro has any, and a list of them would be longer than the design.
    """
    return CONTENTS.sub("", text)


def named_reads(text: str) -> str:
    """A module's body as Yosys wrote it, with the register of a synchronous read called by the output that shows it.

    Yosys calls it by a number, and assigns it to the output.
    """
    for enable, register, word in READ.findall(text):
        shown = re.search(rf"^  assign (\w+) = {register};\n", text, re.MULTILINE)
        if shown is None or text.count(register) != 3:
            continue
        output = shown[1]
        text = text.replace(shown[0], "")
        text = re.sub(rf"^  reg .*\b{register};\n", "", text, flags=re.MULTILINE)
        text = re.sub(rf"^  wire (.*\b{output};)$", r"  reg \1", text, flags=re.MULTILINE)
        text = text.replace(
            f"    if ({enable}) begin\n      {register} <= {word};\n    end\n",
            f"    if ({enable})\n      {output} <= {word};\n",
        )
    return text
