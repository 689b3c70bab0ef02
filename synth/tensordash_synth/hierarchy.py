"""The modules of a generated Verilog file: which are mapped separately, and their instances in the design."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig

from .module_text import interface, normalised

__all__ = ["MEMORY", "PREFIX", "Hierarchy", "Module", "Placement", "hierarchy_of", "named", "role"]

PREFIX = "tensordash_"
MEMORY = "memory"
"""Role of modules that macros replace."""
# Small parts of a component. They are mapped with the enclosing module, so that their logic can merge with its logic.
MERGED = frozenset(
    {
        "addend_accumulator",
        "binned_accumulator",
        "multiplier",
        "exact_accumulator",
        "fused_accumulator",
        "integer_multiplier",
        "integer_accumulator",
        "product_scaler",
        "product_sum",
        "scaled_accumulator",
        "scheduler",
        "step_sums",
    }
)


def role(module: str) -> str:
    """Return the component of a module, without the suffix of its variant.

    >>> role("tensordash_operand_flags__fp16_zeros")
    'operand_flags'
    """
    return module.removeprefix(PREFIX).partition("__")[0]


def named(netlist: str, name: str) -> str:
    """Rename a mapped module."""
    head, _, rest = netlist.partition("module ")
    return f"{head}module {name}{rest[rest.index('(') :]}"


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
        Name and module of each instance in it.
    """

    name: str
    text: str
    children: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Placement:
    """One instance of a module that is mapped separately.

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
        """The component of its module."""
        return role(self.module)


class Hierarchy:
    """The modules below a top.

    Parameters
    ----------
    text : str
        Verilog from `tensordash.emission.verilog.render`.
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
            children = re.findall(rf"^  ({PREFIX}\w+) (\S+) \(", found[0], re.MULTILINE)
            self.modules[found[1]] = Module(found[1], found[0], tuple((name, module) for module, name in children))

    @cached_property
    def placements(self) -> list[Placement]:
        """Every instance that is mapped separately, the top first."""
        return list(self._walk((), self.top))

    @cached_property
    def logic(self) -> list[str]:
        """Modules that are mapped, each once: all except memories."""
        return sorted({placement.module for placement in self.placements if placement.role != MEMORY})

    def _walk(self, path: tuple[str, ...], module: str) -> Iterator[Placement]:
        yield Placement(path, module)
        for instance, child in self.modules[module].children:
            if role(child) not in MERGED:
                yield from self._walk((*path, instance), child)

    def black_boxes(self, module: str) -> list[str]:
        """Return the modules below a module that are mapped separately."""
        names = [child for _, child in self.modules[module].children]
        merged = [name for name in names if role(name) in MERGED]
        boxes = {name for name in names if role(name) not in MERGED}
        return sorted(boxes.union(*(self.black_boxes(name) for name in merged)))

    def twins(self) -> Iterator[tuple[str, str, list[str]]]:
        """Yield the instances that have an equal sibling, except the first: (enclosing module, module, names)."""
        for module in sorted({placement.module for placement in self.placements}):
            names: dict[str, list[str]] = {}
            for instance, child in self.modules[module].children:
                if role(child) not in MERGED:
                    names.setdefault(child, []).append(instance)
            yield from (
                (module, child, sorted(instances)[1:]) for child, instances in sorted(names.items()) if instances[1:]
            )

    def source(self, module: str) -> str:
        """Return the normalised Verilog that is mapped with a module, and the ports of the black boxes below it."""
        parts = self._merged(module)
        texts = [normalised(self.modules[name].text) for name in parts]
        return "\n".join([*texts, *(interface(self.modules[name].text) for name in self.black_boxes(module))])

    def digest(self, module: str) -> str:
        """Return a hash of a module's source that does not depend on its name."""
        text = self.source(module).replace(f"module {module}(", "module (", 1)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def flattened_source(self) -> str:
        """Return the source of the top module and of all modules below it."""
        names = sorted({name for placement in self.placements for name in self._merged(placement.module)})
        return "\n".join(normalised(self.modules[name].text) for name in names)

    def _merged(self, module: str) -> list[str]:
        """Return a module and the parts that are mapped with it, each once."""
        children = sorted({child for _, child in self.modules[module].children if role(child) in MERGED})
        return list(dict.fromkeys([module, *(name for child in children for name in self._merged(child))]))


def hierarchy_of(config: TileConfig | CoreConfig) -> Hierarchy:
    """Return the emitted modules of a tile or a core."""
    if isinstance(config, CoreConfig):
        from tensordash.emission.core_files import core_verilog  # Importing Amaranth is slow.

        return Hierarchy(core_verilog(config), f"{PREFIX}core")
    from tensordash.emission.verilog import render

    return Hierarchy(render(config)["tensordash.v"], f"{PREFIX}tile")
