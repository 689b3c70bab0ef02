"""The modules of a generated Verilog file: which are mapped on their own, and where each stands in the tile."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

__all__ = ["PREFIX", "Hierarchy", "Module", "Placement", "role"]

PREFIX = "tensordash_"
# Small parts of one component: mapped with the module around them, where their logic can merge with its own.
MERGED = frozenset(
    {"multiplier", "exact_accumulator", "fused_accumulator", "integer_multiplier", "integer_accumulator", "scheduler"}
)


def role(module: str) -> str:
    """The component that a module is, without what tells it from others of its kind.

    >>> role("tensordash_operand_flags__fp16_zeros")
    'operand_flags'
    """
    return module.removeprefix(PREFIX).partition("__")[0]


@dataclass(frozen=True)
class Module:
    """A Verilog module.

    Parameters
    ----------
    name : str
        Its name.
    text : str
        Its Verilog.
    children : tuple of (str, str)
        Instance name and module of everything in it.
    """

    name: str
    text: str
    children: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Placement:
    """One instance of a module that is mapped on its own.

    Parameters
    ----------
    path : tuple of str
        Instance names from the top.
    module : str
        Name of the module.
    """

    path: tuple[str, ...]
    module: str

    @property
    def role(self) -> str:
        """The component that it is."""
        return role(self.module)


class Hierarchy:
    """The modules below a top.

    Parameters
    ----------
    text : str
        Verilog as `tensordash.emission.verilog.render` gives it.
    top : str
        Name of the top.

    Examples
    --------
    >>> inner = "module tensordash_b(x);\\nendmodule\\n"
    >>> outer = "module tensordash_a(x);\\n  tensordash_b left (\\n  );\\nendmodule\\n"
    >>> [placement.path for placement in Hierarchy(outer + inner, "tensordash_a").placements]
    [(), ('left',)]
    """

    def __init__(self, text: str, top: str) -> None:
        self.text = text
        self.top = top
        self.modules: dict[str, Module] = {}
        for found in re.finditer(r"^module (\w+)\(.*?^endmodule", text, re.MULTILINE | re.DOTALL):
            children = re.findall(rf"^  ({PREFIX}\w+) (\S+) \($", found[0], re.MULTILINE)
            self.modules[found[1]] = Module(found[1], found[0], tuple((name, module) for module, name in children))

    @cached_property
    def placements(self) -> list[Placement]:
        """Every instance that is mapped on its own, the top first."""
        return list(self._walk((), self.top))

    def _walk(self, path: tuple[str, ...], module: str) -> Iterator[Placement]:
        yield Placement(path, module)
        for instance, child in self.modules[module].children:
            if role(child) not in MERGED:
                yield from self._walk((*path, instance), child)

    def black_boxes(self, module: str) -> list[str]:
        """Modules below one that are mapped on their own."""
        names = [child for _, child in self.modules[module].children]
        merged = [name for name in names if role(name) in MERGED]
        boxes = {name for name in names if role(name) not in MERGED}
        return sorted(boxes.union(*(self.black_boxes(name) for name in merged)))

    def twins(self) -> Iterator[tuple[str, str, list[str]]]:
        """Instances beside an equal one, as (module around them, their module, their names); merged parts apart."""
        for module in sorted({placement.module for placement in self.placements}):
            names: dict[str, list[str]] = {}
            for instance, child in self.modules[module].children:
                if role(child) not in MERGED:
                    names.setdefault(child, []).append(instance)
            yield from ((module, child, instances[1:]) for child, instances in names.items() if instances[1:])

    def digest(self, module: str) -> str:
        """Hash of everything that is mapped with a module, whatever its own name."""
        text = self._merged_text(module).replace(f"module {module}(", "module (", 1)
        return _hash(_canonical(text))

    def _merged_text(self, module: str) -> str:
        merged = sorted({child for _, child in self.modules[module].children if role(child) in MERGED})
        return "\n".join([self.modules[module].text, *map(self._merged_text, merged)])


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(text: str) -> str:
    """Lines of a module whatever the numbers that Yosys gave to its own wires, which depend on the rest of the file.

    >>> _canonical("  assign _1_ = a;\\n  assign x = _1_;") == _canonical("  assign x = _7_;\\n  assign _7_ = a;")
    True
    >>> _canonical("  assign _1_ = a;\\n  assign x = _1_;") == _canonical("  assign _1_ = b;\\n  assign x = _1_;")
    False
    """
    numbered = re.compile(r"\b_\d+_\b")
    meanings = dict(re.findall(r"^  assign (_\d+_) = (.*);$", text, re.MULTILINE))
    names: dict[str, str] = {}

    def name(found: re.Match[str]) -> str:
        wire = found[0]
        if wire in meanings and wire not in names:
            names[wire] = f"_{_hash(numbered.sub(name, meanings[wire]))}_"
        return names.get(wire, wire)

    try:
        return "\n".join(sorted(numbered.sub(name, text).splitlines()))
    except RecursionError:  # thousands of wires in a row: compared as they are
        return text
