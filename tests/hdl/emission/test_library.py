"""Test shared modules: equal arguments give equal hardware, and only ports connect a module."""

import gc
import subprocess
import sys
import textwrap
import warnings
from dataclasses import replace

import pytest
from amaranth.hdl import DomainRenamer, EnableInserter, Module, ResetInserter, Signal, UnusedElaboratable
from amaranth.lib.wiring import In, Out

from tensordash import load_preset
from tensordash.block import Block, placed
from tensordash.configuration.preset import preset_names
from tensordash.emission.library import Library, emit
from tensordash.streams.axi_stream import AxiStreamTile

CONTROL = Signal(name="control")
TRANSFORMERS = {
    "ResetInserter": ResetInserter(CONTROL),
    "EnableInserter": EnableInserter(CONTROL),
    "DomainRenamer": DomainRenamer("other"),
}


@pytest.fixture(autouse=True)
def collect_refused_blocks():
    """Delete refused blocks without Amaranth's warnings that they are unused."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        gc.collect()


class Counter(Block):
    """Counts cycles."""

    def __init__(self, *, width: int) -> None:
        self.width = width
        super().__init__({"count": Out(width)})
        self.step = 1

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.count.eq(self.count + self.step)
        return m


class Pair(Block):
    """Two counters; the function `add` makes the second one a submodule."""

    def __init__(self, add=lambda counter, platform: placed(counter, platform)) -> None:
        self.counters = [Counter(width=4) for _ in range(2)]
        self.add = add
        super().__init__({"control": In(1), "counts": Out(8)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += CONTROL.eq(self.control)
        m.submodules.first = placed(self.counters[0], platform)
        m.submodules.second = self.add(self.counters[1], platform)
        m.d.comb += self.counts.eq(self.counters[0].count + self.counters[1].count)
        return m


def test_equal_counters_share_a_module():
    text = emit(Pair())
    assert text.count("\nmodule ") == 2
    assert text.count("  tensordash_counter ") == 2


def around(counter, platform, transformer):
    return transformer(placed(counter, platform))


def inside(counter, platform, transformer):
    return placed(transformer(counter), platform)


def around_a_parent(counter, platform, transformer):
    m = Module()
    m.submodules.inner = placed(counter, platform)
    return transformer(m)


def in_place(counter, platform, transformer):
    return transformer(counter)


@pytest.mark.parametrize("where", [around, inside, around_a_parent, in_place])
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_are_refused(name, where):
    def add(counter, platform):
        return where(counter, platform, TRANSFORMERS[name])

    with pytest.raises(TypeError, match=f"{name}.* not reach|has a submodule that is not placed"):
        emit(Pair(add))


@pytest.mark.parametrize("name", ["ResetInserter", "EnableInserter"])
def test_transformers_in_a_block_work(name):
    """A transformer reaches all logic that the block itself creates."""

    class GatedCounter(Block):
        def __init__(self) -> None:
            super().__init__({"go": In(1), "count": Out(4)})

        def elaborate(self, platform):
            m = Module()
            m.d.sync += self.count.eq(self.count + 1)
            return {"ResetInserter": ResetInserter, "EnableInserter": EnableInserter}[name](self.go)(m)

    text = emit(GatedCounter())
    assert ("if (go) count <= count + 4'd1;" in text) == (name == "EnableInserter")
    resets = {"ResetInserter": "go | rst", "EnableInserter": "rst"}
    assert f"if ({resets[name]}) count <= 4'd0;" in text


def test_other_domains_are_refused():
    class OtherDomain(Block):
        def __init__(self) -> None:
            super().__init__({"count": Out(4)})

        def elaborate(self, platform):
            m = Module()
            m.d.other += self.count.eq(self.count + 1)
            return m

    with pytest.raises(TypeError, match="OtherDomain has a clock domain other than sync: other$"):
        emit(OtherDomain())


SLOW = {"paper-16lane", "paper-depth5", "mxfp4", "nvfp4", "recommended-2x8"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in preset_names()]
)
def test_shared_modules_are_equal(name):
    """Every component of a smaller tile is converted separately."""
    config = replace(load_preset(name), rows=2, columns=1, out_rows=1)
    checked = Library(check=True)
    checked.module(AxiStreamTile(config))
    plain = Library()
    plain.module(AxiStreamTile(config))
    assert checked.texts == plain.texts


def test_differences_outside_of_the_arguments_are_found():
    pair = Pair()
    pair.counters[1].step = 2
    Library().module(pair)
    with pytest.raises(ValueError, match="two blocks of tensordash_counter differ, though they were constructed with"):
        Library(check=True).module(pair)


class Named(Block):
    """A register with a name, or without one, and a submodule with a name."""

    def __init__(self, *, signal: str, submodule: str) -> None:
        self.names = signal, submodule
        self.counter = Counter(width=4)
        super().__init__({"count": Out(4)})

    def elaborate(self, platform):
        m = Module()
        signal, submodule = self.names
        m.submodules[submodule] = placed(self.counter, platform)
        held = Signal(4) if not signal else Signal(4, name=signal)  # Amaranth finds no name for the first one.
        m.d.sync += held.eq(self.counter.count)
        m.d.comb += self.count.eq(~held)  # Without the inversion, the register would be the port.
        return m


@pytest.mark.parametrize("name", ["begin", "end", "final", "before", "wait", "output", "logic", "var"])
def test_verilog_keywords_are_refused_as_names(name):
    message = f"Named has a signal or submodule {name}, which is a Verilog keyword"
    with pytest.raises(ValueError, match=message):
        emit(Named(signal=name, submodule="counter"))
    with pytest.raises(ValueError, match=message):
        emit(Named(signal="kept", submodule=name))


def test_verilog_keywords_are_refused_as_ports():
    class Event(Block):
        def __init__(self) -> None:
            super().__init__({"event": In(1), "out": Out(1)})

        def elaborate(self, platform):
            m = Module()
            m.d.comb += self.out.eq(self.event)
            return m

    with pytest.raises(ValueError, match="Event has a signal or submodule event, which is a Verilog keyword"):
        emit(Event())


def test_a_block_without_a_source_file():
    """The block is typed at a prompt."""
    source = textwrap.dedent("""
        class Typed(Block):
            def __init__(self):
                super().__init__({"value": In(1), "out": Out(1)})

            def elaborate(self, platform):
                m = Module()
                m.d.comb += self.out.eq(~self.value)
                return m
    """)
    names = {"Block": Block, "In": In, "Out": Out, "Module": Module}
    exec(compile(source, "<stdin>", "exec"), names)
    assert "assign out = ~value;" in emit(names["Typed"]())


def test_unnamed_signals_are_refused():
    with pytest.raises(ValueError, match=r"Named has a signal or submodule without a name \(\$signal\): give it one"):
        emit(Named(signal="", submodule="counter"))
    assert "  tensordash_counter ending (" in emit(Named(signal="kept", submodule="ending"))


def test_word_select_is_an_indexed_part_select():

    class Shifted(Block):
        def __init__(self) -> None:
            super().__init__({"value": In(16), "by": In(2), "low": Out(4)})

        def elaborate(self, platform):
            m = Module()
            m.d.comb += self.low.eq(self.value.word_select(self.by, 4))
            return m

    assert "assign low = value[{by, 2'd0} +: 4];" in emit(Shifted())


def test_default_arguments_are_part_of_the_identity():
    class DefaultWidth(Block):
        def __init__(self, width: int = 4) -> None:
            super().__init__({"count": Out(width)})

    assert DefaultWidth().identity == DefaultWidth(4).identity == DefaultWidth(width=4).identity
    assert DefaultWidth().identity != DefaultWidth(5).identity
    assert Counter(width=4).identity != DefaultWidth(width=4).identity


INTERRUPTED = """
import gc, sys
from tensordash.schedule.operand_mux import OperandMux
from tensordash_cli.main import run

def interrupted(self, platform):
    raise KeyboardInterrupt

OperandMux.elaborate = interrupted
try:
    run(["generate", "--preset", "paper", "-o", sys.argv[1]])
finally:
    gc.collect()
"""


def test_ctrl_c_leaves_no_warnings(tmp_path):
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "out")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 130
    assert "nused" not in run.stderr
    assert run.stderr.split() == ["tensordash:", "interrupted"]
