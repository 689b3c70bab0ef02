"""Tokens: no program deadlocks, and one that breaks the rule of tokens is refused.

The sequencer with any units, of any program. What is claimed, one by one, is that

- a descriptor that breaks the rule is refused, with its code, and all before it go on as if it were not there;
- each other one is sent once, whole, to each of its units, in order, with the tokens that it waits for;
- the oldest that is not done has its tokens;
- its units have it within at most 20 cycles in which no beat of a descriptor is sent and no unit says that it is done;
- `done` grows in the cycle after its last unit has said so, and the next one is the oldest.

While a descriptor is the oldest, no more than a window's others are sent and done, once each; so it is begun. If a unit
that has a descriptor, and of a multiply both, says some time later that it is done, then so is every descriptor, one
after the other: there is no deadlock. With an error the same holds up to the descriptor that has it, and it is told.
"""

from dataclasses import replace
from typing import Any

from amaranth.hdl import Array, Cat, Const, Elaboratable, Instance, Module, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS, UNITS
from tensordash.configuration.preset import load_any_preset
from tensordash.configuration.registers import ERRORS
from tensordash.core.descriptor_check import DescriptorCheck
from tensordash.core.sequencer import CODES, Sequencer
from tensordash.memory.memory import Memory
from tensordash.movers.unit import COMMAND_BEATS, COMMAND_BITS

from ..harness import Fault, Harness, Stub
from ..program_order import MAX_TOKENS, ProgramOrder, has_reserved, has_unfit, token_fields
from ..proof import BrokenVariant, Proof

__all__ = ["PROOF"]

PARTITIONS = 6
WINDOW = 4
"""Descriptors in the window: a model of the presets' 16 takes too long to build."""


class WindowAbstraction(Elaboratable):
    """The window's memory: it keeps tokens of all descriptors, and one word, which may be any. All else is any value.

    What is read stays until another read.
    """

    def __init__(self, block: Block) -> None:
        assert isinstance(block, Memory)
        self.block = block

    def elaborate(self, platform: Any) -> Module:
        """Registers, by name: the proof's lemmas read them."""
        m = Module()
        block = self.block
        m.d.sync += Signal(name="clocked").eq(1)  # for the ports of clock and reset
        watched = Signal(range(block.words), name="watched")
        m.submodules.any_watched = Instance("$anyconst", p_WIDTH=len(watched), o_Y=watched)
        free = Signal(block.bits, name="free")
        m.submodules.any_free = Instance("$anyseq", p_WIDTH=block.bits, o_Y=free)
        word = Signal(block.bits, name="word", reset_less=True)
        kept = [
            {name: Signal(width, name=f"{name}_{slot}", reset_less=True) for name, (_, width) in token_fields().items()}
            for slot in range(block.words // COMMAND_BEATS)
        ]
        with m.If(block.write_enable):
            with m.If(block.write_address == watched):
                m.d.sync += word.eq(block.write_data)
            for slot, tokens in enumerate(kept):
                with m.If(block.write_address == COMMAND_BEATS * slot):
                    for name, (low, width) in token_fields().items():
                        m.d.sync += tokens[name].eq(block.write_data[low : low + width])
        read = Signal(block.bits, name="read", reset_less=True)
        m.d.comb += block.read_data.eq(read)
        at = block.read_address
        with m.If(block.read_enable):
            m.d.sync += read.eq(free)
            with m.If(at[:2] == 0):
                for name, (low, width) in token_fields().items():
                    m.d.sync += read[low : low + width].eq(Array(tokens[name] for tokens in kept)[at[2:]])
            with m.If(at == watched):
                m.d.sync += read.eq(word)
        return m


class _Seen:
    """What a unit's ports have shown: its place in the program, and what has become of the descriptor there."""

    def __init__(self, harness: "Told", number: int, name: str) -> None:
        m, order = harness.m, harness.order
        self.number, self.name = number, name
        self.command = getattr(harness.dut, name)
        self.at = order.place(f"{name}_at")
        self.given = Signal(name=f"{name}_given")  # it was offered its first beat
        self.sent = Signal(range(COMMAND_BEATS + 1), name=f"{name}_sent")  # beats
        self.wrong = Signal(name=f"{name}_wrong")  # it said that it is done, with an error
        self.error = Signal(4, name=f"{name}_was", reset_less=True)
        self.owed = Signal(order.window, name=f"{name}_owed")  # of slots, whose descriptors are its and not done
        self.begins, self.holds = Signal(name=f"{name}_begins"), Signal(name=f"{name}_holds")
        self.ends = Signal(name=f"{name}_is_done")
        self.mine = Signal(name=f"{name}_is_next")  # its next descriptor is the one it stands at
        descriptor, done = self.command.descriptor, self.command.done
        slot = order.slot(self.at)
        m.d.comb += [
            self.begins.eq(descriptor.valid & ~self.given),
            self.holds.eq(self.sent == COMMAND_BEATS),
            self.ends.eq(done & (self.command.error == 0)),
            self.mine.eq(self.owed.bit_select(slot, 1)),
        ]
        # docs/core.md, "Tokens"; `CommandSignature`.
        harness.assume(descriptor.ready == ~self.holds)
        harness.assume(self.holds | ~done)
        with m.If(order.arrives & (order.new_code == 0) & order.new.of[number]):
            m.d.sync += self.owed.bit_select(order.slot(order.count), 1).eq(1)
        with m.If(descriptor.valid & descriptor.ready):
            m.d.sync += self.sent.eq(self.sent + 1)
        with m.If(self.begins):
            m.d.sync += self.given.eq(1)
        with m.If(done):
            m.d.sync += self.sent.eq(0)
        with m.If(self.ends):
            m.d.sync += [self.given.eq(0), self.at.eq(self.at + 1), self.owed.bit_select(slot, 1).eq(0)]
        with m.Elif((self.at != order.count) & ~self.mine):
            m.d.sync += self.at.eq(self.at + 1)
        with m.If(done & ~self.ends):
            m.d.sync += [self.wrong.eq(1), self.error.eq(self.command.error)]


class Told(Harness):
    """A sequencer, whose units may take any time for a descriptor and find any error, and a command queue.

    The queue gives a descriptor only when there is a place (`command_queue` proves it). Tokens are followed for one
    unit that takes them, which may be any.

    Source: docs/core.md, "Tokens" and "Errors"; the docstring of `Sequencer`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        config = replace(config, window=WINDOW)
        self.dut = dut = Sequencer(config=config)
        super().__init__(
            dut, stubs=(Stub(Memory, WindowAbstraction),), fault=fault, black_box=True, partitions=PARTITIONS
        )
        m = self.m
        self.taker = self.constant(range(len(UNITS)), "taker")
        self.assume(self.taker < len(UNITS))
        self.order = order = ProgramOrder(m, config, dut.descriptors, self.taker)
        self.done = dut.done[: order.place_bits]
        self.there = order.count != self.done
        self.assume(~dut.descriptors.valid | (self.ahead(order.count) < config.window))
        self.seen = [_Seen(self, number, name) for number, name in enumerate(UNITS)]
        self._count()
        self._claims()
        self._rest()
        self._follow_check()
        self._follow_units()
        self._follow_tokens()

    def ahead(self, place: Value) -> Value:
        """How far a place is behind the oldest descriptor that is not done."""
        return (place - self.done)[: self.order.place_bits]

    def of_taker(self, values: list[Any]) -> Value:
        """What of units' values is the taker's."""
        return Array(values)[self.taker]

    def _count(self) -> None:
        """Tokens to the taker, as ports show them given and taken."""
        order = self.order
        self.tokens, self.passed = [], []
        self.at = Signal(order.place_bits, name="taker_at")
        self.begins, self.given = Signal(name="taker_begins"), Signal(name="taker_given")
        self.m.d.comb += [
            self.at.eq(self.of_taker([each.at for each in self.seen])),
            self.begins.eq(self.of_taker([each.begins for each in self.seen])),
            self.given.eq(self.of_taker([each.given for each in self.seen])),
        ]
        self.waits = [
            order.at([order.takes(entry, i) for entry in order.entries], self.at) for i, _ in enumerate(UNITS)
        ]
        for i, giver in enumerate(self.seen):
            given, taken, tokens = (
                Signal(order.token_bits, name=f"{giver.name}_{name}_so_far") for name in ("gives", "taken", "tokens")
            )
            gives = giver.ends & order.at([order.gives(entry, i) for entry in order.entries], giver.at)
            self.m.d.sync += [given.eq(given + gives), taken.eq(taken + (self.begins & self.waits[i]))]
            self.m.d.comb += tokens.eq(given - taken)
            self.tokens.append(tokens)
            self.passed.append((given, taken))
        oldest = [each.owed.bit_select(order.slot(self.done), 1) for each in self.seen]
        self.left = Cat(*oldest)  # units that have to do the oldest
        refused = order.refused & (order.refused_at == self.done)
        self.faults = [each.wrong & (each.at == self.done) for each in self.seen]
        self.wrong = Signal(name="oldest_is_wrong")
        self.finished = Signal(name="oldest_is_finished")
        self.refused = refused
        self.m.d.comb += [
            self.wrong.eq(refused | Cat(*self.faults).any()),
            self.finished.eq(self.there & ~refused & (self.left == 0)),
        ]

    def _claims(self) -> None:
        dut, order, config = self.dut, self.order, self.dut.config
        watched = self.port("window.watched", range(config.window * COMMAND_BEATS))
        word = Signal(COMMAND_BITS, name="watched_word", reset_less=True)
        with self.m.If(order.comes & (Cat(order.beat, order.slot(order.count)) == watched)):
            self.m.d.sync += word.eq(dut.descriptors.payload.data)
        self.watched, self.word = watched, word
        # Of all units at once, and not of waits alone: that the claims say something shows before a second descriptor.
        offered = Cat(each.command.descriptor.valid for each in self.seen)
        own = Cat(each.mine & ~each.holds & ~each.wrong for each in self.seen)
        this = Cat(Cat(each.sent[:2], order.slot(each.at)) == watched for each in self.seen)
        same = Cat(each.command.descriptor.payload == word for each in self.seen)
        self.claim("a_descriptor_is_sent_once_in_order_to_its_unit", ~(offered & ~own).any(), when=offered.any())
        self.claim("it_is_sent_unchanged", ~(offered & this & ~same).any(), when=(offered & this).any())
        waits = Cat(self.waits)
        there = ~(waits & ~Cat(tokens != 0 for tokens in self.tokens)).any()
        self.claim("a_descriptor_begins_with_its_tokens", there, when=self.begins)
        oldest = self.there & self.of_taker(list(self.left)) & ~self.given
        self.claim("the_oldest_has_its_tokens", there, when=oldest)
        grows = self.past(self.finished)
        self.claim("done_counts_what_its_units_have_done", dut.done == (self.past(dut.done) + 1)[:32], when=grows)
        self.claim(
            "done_counts_what_its_units_have_done", dut.done == self.past(dut.done), when=~grows & (dut.done != 0)
        )
        code = order.at([entry.code for entry in order.entries], self.done)
        ended = self.finished & (code == OPERATIONS["end"].code)
        self.claim("an_end_is_told_when_all_before_it_is_done", dut.ended == ended, when=self.finished)
        self.claim("an_end_is_told_when_all_before_it_is_done", ~dut.ended, when=~self.finished)
        faults = [fault & (each.error == dut.error) for fault, each in zip(self.faults, self.seen, strict=True)]
        right = Mux(self.refused, dut.error == order.code, Cat(*faults).any())
        self.claim("the_error_is_the_first_descriptors", self.wrong & right, when=dut.failed)
        self.claim("the_error_is_the_first_descriptors", dut.error == 0, when=~dut.failed)

    def _rest(self) -> None:
        """Cycles in which nothing moves."""
        dut, m = self.dut, self.m
        moves = Cat(*(each.command.descriptor.valid | each.command.done for each in self.seen)).any()
        begins = self.there & self.of_taker(list(self.left)) & ~self.given & ~self.wrong
        counts = range(4 * len(UNITS))
        self.rests, self.tells = Signal(counts, name="rests"), Signal(counts, name="tells")
        m.d.sync += self.rests.eq(Mux(begins & ~moves, self.rests + 1, 0))
        # Each unit's tokens take two reads of the port, and an error takes one. Finding the unit's place takes a cycle.
        self.errors = sum(each.wrong for each in self.seen)
        most = 2 * sum(each.owed.any() for each in self.seen) + self.errors + 1
        self.claim("the_oldest_begins_unless_another_moves", self.rests <= most, when=self.rests > 2)
        # A multiply behind the error may wait for its other half for ever.
        halves = ("multiply", "output")
        under_way = [
            (each.given | each.begins) & ~each.wrong & ((each.at == self.done) if each.name in halves else Const(1))
            for each in self.seen
        ]
        waits = self.wrong & ~Cat(*under_way).any() & ~moves & ~dut.failed
        m.d.sync += self.tells.eq(Mux(waits, self.tells + 1, 0))
        self.claim("an_error_is_told_when_all_is_quiet", self.tells <= self.errors + 2, when=self.tells > 0)

    def _follow_check(self) -> None:
        """The sequencer's check has seen what came, and its counts are those of the rule."""
        order, config = self.order, self.dut.config
        alive = ~order.refused
        self.lemma(self.probe("refused", 1) == order.refused)
        self.lemma(self.probe("beat", 2) == order.beat)
        self.lemma(self.probe("unread", 1) == order.unread, when=alive)
        self.lemma(~order.unread | (order.beat != 0), when=alive)
        self.lemma(self.probe("checked", order.place_bits) == order.count)
        begun = alive & (order.beat != 0)
        self.lemma(self.probe("check.operation", 4) == order.bits[:4], when=begun)
        moves = self.probe("check.compressed", 1)
        is_move = Cat(order.bits[:4] == OPERATIONS[name].code for name in ("load", "store")).any()
        self.lemma(moves == (is_move & order.bits[24]), when=begun)
        for name, (low, width) in token_fields().items():
            self.lemma(self.probe(f"check.{name}_held", width) == order.bits[low : low + width], when=begun)
        for name, rule in (("was_reserved", has_reserved), ("was_below", has_unfit)):
            found = self.probe(f"check.{name}", 1)
            for k in range(1, COMMAND_BEATS):
                wrong = rule(config, order.bits, COMMAND_BITS * k)
                self.lemma(found == wrong, when=alive & (order.beat == k))
        for i, giver in enumerate(UNITS):
            for j, taker in enumerate(UNITS):
                count = self.probe(f"check.{giver}_to_{taker}", 4)
                self.lemma(count == order.counts[i][j], when=alive)
            chosen = self.of_taker(order.counts[i])
            total = (order.total["given"][i] - order.total["taken"][i])[: order.token_bits]
            self.lemma(chosen == total, when=alive)
            self.lemma(total <= MAX_TOKENS)
        self.lemma(order.code != 0, when=order.refused)

    def _follow_units(self) -> None:
        """The window, each unit's place in it, and who has the read port."""
        dut, order = self.dut, self.order
        window, count = order.window, self.ahead(order.count)
        self.lemma(count <= window)
        self.lemma(self.ahead(order.refused_at) + 1 == count, when=order.refused)
        self.distance = [(Const(k, order.place_bits) - self.done)[: order.place_bits - 1] for k in range(window)]
        self.present = [distance < count for distance in self.distance]
        self.there_by_slot = Array(self.present)
        kept = [
            {name: self.probe(f"window.{name}_{k}", width) for name, (_, width) in token_fields().items()}
            for k in range(window)
        ]
        output = UNITS.index("output")
        for k, entry in enumerate(order.entries):
            present = self.present[k]
            refused = order.refused & (order.slot(order.refused_at) == k)
            self.lemma(self.probe(f"operation_{k}", 3) == entry.code, when=present)
            known = Cat(*(entry.code == each.code for each in OPERATIONS.values())).any()
            self.lemma(known != refused, when=present)
            self.lemma((entry.code == 0) == refused, when=present)
            main = Cat(*(each.owed[k] for each in self.seen if each.name != "output")).any()
            left = Mux(refused, 3, Cat(main, self.seen[output].owed[k]))
            self.lemma(self.probe(f"left_{k}", 2) == left, when=present)
            for name, tokens in kept[k].items():
                self.lemma(tokens == entry.tokens[name], when=present)
            # Tokens are written with the first beat, before the descriptor is all there.
            coming = ~order.refused & (order.beat != 0) & (order.slot(order.count) == k)
            for name, (low, width) in token_fields().items():
                self.lemma(kept[k][name] == order.bits[low : low + width], when=coming)
        beat, slot = self.watched[:2], self.watched[2:]
        shown = Array(self.present)[slot] | (~order.refused & (order.slot(order.count) == slot) & (order.beat > beat))
        self.lemma(self.probe("window.word", COMMAND_BITS) == self.word, when=shown)
        here = [(beat == 0) & (slot == k) for k in range(window)]
        for k, entry in enumerate(order.entries):
            for name, (low, width) in token_fields().items():
                bits = self.word[low : low + width]
                self.lemma(bits == entry.tokens[name], when=here[k] & self.present[k])
                self.lemma(bits == order.bits[low : low + width], when=here[k] & shown & ~self.present[k])
        reading, sending = self.probe("reading", 1), self.probe("sending", 1)
        served, sends = self.probe("served", 3), self.probe("beat_2", 2)
        read = self.probe("window.read", COMMAND_BITS)
        limited, limit = self.probe("limited", 1), self.probe("limit", order.place_bits)
        code = self.probe("code", 4)
        self.lemma(~(reading & sending))
        self.lemma(served < len(UNITS), when=reading | sending)
        refused_here = order.refused & (limit == order.refused_at)
        self.lemma(self.ahead(limit) < count, when=limited)
        self.lemma(limited, when=order.refused)
        behind = [each.wrong & (limit == each.at) for each in self.seen]
        self.lemma(refused_here | Cat(*behind).any(), when=limited)
        found_code = [at & (each.error == code) for at, each in zip(behind, self.seen, strict=True)]
        self.lemma(Mux(refused_here, code == order.code, Cat(*found_code).any()), when=limited)
        self.lemma(self.ahead(limit) <= self.ahead(order.refused_at), when=order.refused)
        self.lemma(limited & (limit == self.done), when=dut.failed)
        checked = self.probe("checked", order.place_bits)
        operations = [self.probe(f"operation_{k}", 3) for k in range(window)]
        readies, looks = [], []
        for v, each in enumerate(self.seen):
            place = self.probe(f"{each.name}_place", order.place_bits)
            ready, begun, failed = (self.probe(f"{each.name}_{name}", 1) for name in ("ready", "begun", "failed"))
            operation = Array(operations)[place[:-1]]
            found = (place != checked) & Cat(*(operation == code for code in CODES[each.name])).any()
            readies.append(ready)
            looks.append(failed)
            mine = reading & (served == v)
            sent = sending & (served == v)
            self.lemma(place == each.at)
            self.lemma(self.ahead(each.at) <= count)
            self.lemma(each.mine, when=found)
            self.lemma(found, when=ready | mine)
            self.lemma(~ready, when=mine)
            self.lemma(ready, when=begun | each.given | each.wrong | sent)
            self.lemma(each.given, when=each.wrong)
            self.lemma(begun == ((each.given | each.begins) & ~each.wrong))
            self.lemma(each.wrong, when=failed)
            self.lemma(self.probe(f"{each.name}_error_2", 4) == each.error, when=each.wrong)
            told = limited & (self.ahead(limit) <= self.ahead(each.at))
            self.lemma(told | failed, when=each.wrong)
            self.lemma(begun, when=sent)
            self.lemma(each.sent == sends, when=sent)
            self.lemma(each.sent == Mux(each.given & ~each.wrong, COMMAND_BEATS, 0), when=~sent)
            self.lemma(each.given == (sends != 0), when=sent & (sends != 0))
            self.lemma(~each.wrong, when=sent)
            entry_tokens = {
                name: order.at([entry.tokens[name] for entry in order.entries], each.at) for name in token_fields()
            }
            for name in ("wait", "signal"):
                field = entry_tokens[f"output_{name}" if each.name == "output" else name]
                others = Cat(field[:v], field[v + 1 :])
                self.lemma(self.probe(f"{each.name}_{name}", len(UNITS) - 1) == others, when=ready)
            for name, (low, width) in token_fields().items():
                self.lemma(read[low : low + width] == entry_tokens[name], when=mine)
            this = Cat(each.sent[:2], order.slot(each.at)) == self.watched
            self.lemma(read == self.word, when=sent & this)
            for k, entry in enumerate(order.entries):
                owed = entry.of[v] & self.present[k] & (self.distance[k] >= self.ahead(each.at))
                self.lemma(each.owed[k] == owed)
        # Each cycle in which nothing moves lowers one of these counts.
        looked = sum(each.wrong & ~looks[v] for v, each in enumerate(self.seen))
        self.lemma(self.rests <= 2 * sum(readies) + reading + looked + sending)
        self.lemma(self.tells <= looked + ~reading + dut.failed)

    def _follow_tokens(self) -> None:
        """A pair's tokens are what was given up to the giver's place, less what was taken up to the taker's."""
        order = self.order
        given, taken = order.before["given"], order.before["taken"]
        taken_to = (self.at + self.given)[: order.place_bits]
        for i, giver in enumerate(self.seen):
            tokens = self.tokens[i]
            total = order.total["given"][i], order.total["taken"][i]
            given_now = Mux(giver.at == order.count, total[0], order.at(given[i], giver.at))
            taken_now = Mux(self.at == order.count, total[1], order.at(taken[i], self.at)) + (
                self.given & self.waits[i]
            )
            self.lemma(self.passed[i][0] == given_now)
            self.lemma(self.passed[i][1] == taken_now[: order.token_bits])
            self.lemma(tokens <= MAX_TOKENS + order.window)
            for k, entry in enumerate(order.entries):
                last = self.distance[k] + 1 == self.ahead(order.count)
                following = [
                    Mux(last, total[n], before[i][(k + 1) % order.window]) for n, before in enumerate((given, taken))
                ]
                gives, takes = order.gives(entry, i), order.takes(entry, i)
                here = self.present[k]
                self.lemma(following[0] == (given[i][k] + gives)[: order.token_bits], when=here)
                self.lemma(following[1] == (taken[i][k] + takes)[: order.token_bits], when=here)
                between = (given[i][k] - taken[i][k])[: order.token_bits]
                self.lemma((between <= MAX_TOKENS) & (between >= takes), when=here)
                passed = here & (self.distance[k] <= self.ahead(giver.at))
                self.lemma((given_now - given[i][k])[: order.token_bits] <= order.window, when=passed)
                begun = here & (self.distance[k] <= self.ahead(taken_to))
                self.lemma((taken_now - taken[i][k])[: order.token_bits] <= order.window, when=begun)
            hardware = [
                self.probe(f"{giver.name}_to_{taker}", (MAX_TOKENS + order.window).bit_length())
                if taker != giver.name
                else tokens
                for taker in UNITS
            ]
            own = self.taker == i
            held = (tokens - (self.begins & self.waits[i]))[: order.token_bits]
            self.lemma(self.of_taker(hardware) == held, when=~own)


def _sends_loads_to_the_store(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [
        outer.store.descriptor.valid.eq(sound.load.descriptor.valid),
        outer.load.descriptor.valid.eq(0),
        sound.load.descriptor.ready.eq(outer.store.descriptor.ready),
    ]


def _lets_it_through(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.error.eq(Mux(sound.error == ERRORS["tokens"], 0, sound.error))


def _says_it_is_a_field(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.error.eq(Mux(sound.error == ERRORS["tokens"], ERRORS["field"], sound.error))


def _changes_a_bit(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.load.descriptor.payload.eq(sound.load.descriptor.payload ^ 1)


def _sends_what_has_come(m: Module, sound: Any, outer: Any) -> None:
    beats = Signal(range(2 * COMMAND_BEATS + 1))
    with m.If(outer.descriptors.valid & (beats != 2 * COMMAND_BEATS)):
        m.d.sync += beats.eq(beats + 1)
    m.d.comb += outer.layout_a.descriptor.valid.eq(sound.layout_a.descriptor.valid | (beats == 2 * COMMAND_BEATS))


def _done_when_the_next_one_is_there(m: Module, sound: Any, outer: Any) -> None:
    beats = Signal(34)
    m.d.sync += beats.eq(beats + outer.descriptors.valid)
    m.d.comb += outer.done.eq(Mux(beats[2:] == 0, 0, beats[2:] - 1))


def _counts_what_is_there(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.done.eq(sound.done + sound.running.any())


def _ends_with_a_beat(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.ended.eq(sound.ended | outer.descriptors.valid)


def _store_is_held_back(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [outer.store.descriptor.valid.eq(0), sound.store.descriptor.ready.eq(0)]


def _never_fails(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [outer.failed.eq(0), outer.error.eq(0)]


def _variant(claim: str, title: str, fault: Fault, kind: type[Block] = Sequencer, depth: int = 12) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, depth=depth)


IN_ORDER = "a_descriptor_is_sent_once_in_order_to_its_unit"
BROKEN_VARIANTS = (
    _variant(IN_ORDER, "what breaks the rule is let through", _lets_it_through, DescriptorCheck, 14),
    _variant(IN_ORDER, "loads go to the store unit", _sends_loads_to_the_store),
    _variant("it_is_sent_unchanged", "a bit is another", _changes_a_bit),
    _variant("a_descriptor_begins_with_its_tokens", "a layout is sent as soon as it has come", _sends_what_has_come),
    _variant(
        "the_oldest_has_its_tokens", "a descriptor is done when the next one is there", _done_when_the_next_one_is_there
    ),
    _variant("done_counts_what_its_units_have_done", "it counts what is there", _counts_what_is_there),
    _variant("an_end_is_told_when_all_before_it_is_done", "every beat is told", _ends_with_a_beat),
    _variant(
        "the_error_is_the_first_descriptors", "tokens are told as a field", _says_it_is_a_field, DescriptorCheck, 10
    ),
    _variant("the_oldest_begins_unless_another_moves", "the store unit is forgotten", _store_is_held_back, depth=14),
    _variant("an_error_is_told_when_all_is_quiet", "it is not told", _never_fails),
)

PROOF = Proof(
    name="tokens",
    build=Told,
    applies=lambda config: isinstance(config, CoreConfig),
    broken_variants=BROKEN_VARIANTS,
    cover_depth=10,
    engine="smtbmc --stbv --nopresat z3 -- --noincr",
    broken_config=load_any_preset("core"),
)
