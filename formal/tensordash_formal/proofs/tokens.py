"""Tokens: no program deadlocks, and the sequencer refuses a program that violates the token rule.

The harness has the sequencer, with arbitrary units and programs. The claims are:

- The sequencer refuses a descriptor that violates the rule, with its code. Earlier descriptors run unaffected.
- It sends every other descriptor once, complete and in order, to each of its units, when their tokens have arrived.
- The oldest unfinished descriptor has its tokens.
- The units of the oldest descriptor begin it within 20 cycles, not counting cycles in which a beat is sent or a unit
  finishes.
- `done` increments in the cycle after the last unit finishes the oldest descriptor. Then the next descriptor is the
  oldest.

While a descriptor is the oldest, at most the other descriptors of the window are sent and finished, once each. So the
oldest begins. If every unit finishes its descriptors (for a multiply, both units), every descriptor is finished in
turn, so there is no deadlock. After an error, this holds up to the descriptor with the error, which is then reported.
No solver checks this paragraph, and no proof shows that a unit finishes.

Assumes: the queue sends a descriptor only if the window has room (`command_queue`). The window has 4 descriptors.
"""

from dataclasses import replace
from typing import Any

from amaranth.hdl import Array, Cat, Const, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS, UNITS
from tensordash.configuration.preset import load_any_preset
from tensordash.core.sequencer import CODES, Sequencer
from tensordash.memory.memory import Memory
from tensordash.movers.unit import COMMAND_BEATS, COMMAND_BITS

from ..harness import Fault, Harness, Stub
from ..program_order import MAX_TOKENS, ProgramOrder, has_illegal_field, has_reserved, token_fields
from ..proof import Proof
from .tokens_monitors import UnitMonitor, WindowAbstraction
from .tokens_variants import BROKEN_VARIANTS

__all__ = ["PROOF"]

WINDOW = 4
"""Descriptors in the window of the model. A model with 16, as in the presets, takes too long to build."""


class SequencerHarness(Harness):
    """A sequencer between a command queue and units with free execution times and errors.

    The queue sends a descriptor only if the window has room (proven by `command_queue`). Tokens are counted for one
    arbitrary consumer.

    Source: docs/core.md, "Tokens" and "Errors"; the docstring of `Sequencer`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        config = replace(config, window=WINDOW)
        self.dut = dut = Sequencer(config=config)
        super().__init__(dut, stubs=(Stub(Memory, WindowAbstraction),), fault=fault, black_box=True)
        m = self.m
        self.consumer = self.constant(range(len(UNITS)), "consumer")
        self.assume(self.consumer < len(UNITS))
        self.order = order = ProgramOrder(m, config, dut.descriptors, self.consumer)
        self.done = dut.done[: order.place_bits]
        self.has_oldest = order.count != self.done
        self.assume(~dut.descriptors.valid | (self.ahead(order.count) < config.window))
        self.monitors = [UnitMonitor(self, number, name) for number, name in enumerate(UNITS)]
        self._count_tokens()
        self._claims()
        self._claim_progress()
        self._add_check_lemmas()
        self._add_window_lemmas()
        self._add_unit_lemmas()
        self._add_token_lemmas()

    def ahead(self, place: Value) -> Value:
        """Return the distance of a place from the oldest unfinished descriptor."""
        return (place - self.done)[: self.order.place_bits]

    def of_consumer(self, values: list[Any]) -> Value:
        """Select the consumer's value."""
        return Array(values)[self.consumer]

    def _count_tokens(self) -> None:
        """Count the tokens to the consumer at the ports."""
        order = self.order
        self.tokens, self.token_counts = [], []
        self.at = Signal(order.place_bits, name="consumer_at")
        self.begins, self.begun = Signal(name="consumer_begins"), Signal(name="consumer_begun")
        self.m.d.comb += [
            self.at.eq(self.of_consumer([each.at for each in self.monitors])),
            self.begins.eq(self.of_consumer([each.begins for each in self.monitors])),
            self.begun.eq(self.of_consumer([each.begun for each in self.monitors])),
        ]
        self.waits = [
            order.at([order.waits_for(entry, i) for entry in order.entries], self.at) for i, _ in enumerate(UNITS)
        ]
        for i, producer in enumerate(self.monitors):
            produced, consumed, tokens = (
                Signal(order.token_bits, name=f"{producer.name}_{name}_so_far")
                for name in ("produced", "consumed", "tokens")
            )
            signals = producer.ends & order.at([order.signals(entry, i) for entry in order.entries], producer.at)
            self.m.d.sync += [produced.eq(produced + signals), consumed.eq(consumed + (self.begins & self.waits[i]))]
            self.m.d.comb += tokens.eq(produced - consumed)
            self.tokens.append(tokens)
            self.token_counts.append((produced, consumed))
        oldest = [each.owed.bit_select(order.slot(self.done), 1) for each in self.monitors]
        self.left = Cat(*oldest)  # units that have not finished the oldest descriptor
        refused = order.refused & (order.refused_at == self.done)
        self.faults = [each.wrong & (each.at == self.done) for each in self.monitors]
        self.wrong = Signal(name="oldest_is_wrong")
        self.finished = Signal(name="oldest_is_finished")
        self.refused = refused
        self.m.d.comb += [
            self.wrong.eq(refused | Cat(*self.faults).any()),
            self.finished.eq(self.has_oldest & ~refused & (self.left == 0)),
        ]

    def _claims(self) -> None:
        dut, order, config = self.dut, self.order, self.dut.config
        watched = self.port("window.watched", range(config.window * COMMAND_BEATS))
        word = Signal(COMMAND_BITS, name="watched_word", reset_less=True)
        with self.m.If(order.accepts & (Cat(order.beat, order.slot(order.count)) == watched)):
            self.m.d.sync += word.eq(dut.descriptors.payload.data)
        self.watched, self.word = watched, word
        # The claims combine all units, so the first descriptor reaches their covers.
        offered = Cat(each.command.descriptor.valid for each in self.monitors)
        own = Cat(each.next_is_own & ~each.holds & ~each.wrong for each in self.monitors)
        this = Cat(Cat(each.sent[:2], order.slot(each.at)) == watched for each in self.monitors)
        same = Cat(each.command.descriptor.payload == word for each in self.monitors)
        self.claim("a_descriptor_is_sent_once_in_order_to_its_unit", ~(offered & ~own).any(), when=offered.any())
        self.claim("it_is_sent_unchanged", ~(offered & this & ~same).any(), when=(offered & this).any())
        waits = Cat(self.waits)
        has_tokens = ~(waits & ~Cat(tokens != 0 for tokens in self.tokens)).any()
        self.claim("a_descriptor_begins_with_its_tokens", has_tokens, when=self.begins)
        oldest = self.has_oldest & self.of_consumer(list(self.left)) & ~self.begun
        self.claim("the_oldest_has_its_tokens", has_tokens, when=oldest)
        grows = self.past(self.finished)
        self.claim("done_counts_what_its_units_have_done", dut.done == (self.past(dut.done) + 1)[:32], when=grows)
        self.claim(
            "done_counts_what_its_units_have_done", dut.done == self.past(dut.done), when=~grows & (dut.done != 0)
        )
        code = order.at([entry.code for entry in order.entries], self.done)
        ended = self.finished & (code == OPERATIONS["end"].code)
        self.claim("an_end_is_reported_when_all_before_it_is_done", dut.ended == ended, when=self.finished)
        self.claim("an_end_is_reported_when_all_before_it_is_done", ~dut.ended, when=~self.finished)
        faults = [fault & (each.error == dut.error) for fault, each in zip(self.faults, self.monitors, strict=True)]
        right = Mux(self.refused, dut.error == order.code, Cat(*faults).any())
        self.claim("the_error_is_the_first_descriptors", self.wrong & right, when=dut.failed)
        self.claim("the_error_is_the_first_descriptors", dut.error == 0, when=~dut.failed)

    def _claim_progress(self) -> None:
        """Bound the number of cycles without progress."""
        dut, m = self.dut, self.m
        moves = Cat(*(each.command.descriptor.valid | each.command.done for each in self.monitors)).any()
        begins = self.has_oldest & self.of_consumer(list(self.left)) & ~self.begun & ~self.wrong
        counts = range(4 * len(UNITS))
        self.idle_cycles, self.reporting_cycles = (
            Signal(counts, name="idle_cycles"),
            Signal(counts, name="reporting_cycles"),
        )
        m.d.sync += self.idle_cycles.eq(Mux(begins & ~moves, self.idle_cycles + 1, 0))
        # Each unit's tokens take two reads of the port, and an error takes one. Finding the unit's place takes a cycle.
        self.errors = sum(each.wrong for each in self.monitors)
        max_idle_cycles = 2 * sum(each.owed.any() for each in self.monitors) + self.errors + 1
        self.claim(
            "the_oldest_begins_unless_another_moves", self.idle_cycles <= max_idle_cycles, when=self.idle_cycles > 2
        )
        # A multiply after the error may wait forever for its other half.
        halves = ("multiply", "output")
        under_way = [
            (each.begun | each.begins) & ~each.wrong & ((each.at == self.done) if each.name in halves else Const(1))
            for each in self.monitors
        ]
        waits = self.wrong & ~Cat(*under_way).any() & ~moves & ~dut.failed
        m.d.sync += self.reporting_cycles.eq(Mux(waits, self.reporting_cycles + 1, 0))
        self.claim(
            "an_error_is_reported_when_all_is_quiet",
            self.reporting_cycles <= self.errors + 2,
            when=self.reporting_cycles > 0,
        )

    def _add_check_lemmas(self) -> None:
        """State the lemmas about the sequencer's descriptor check and its token counters."""
        order, config = self.order, self.dut.config
        alive = ~order.refused
        self.lemma(self.probe("refused", 1) == order.refused)
        self.lemma(self.probe("beat", 2) == order.beat)
        self.lemma(self.probe("unread", 1) == order.fetch_failed, when=alive)
        self.lemma(~order.fetch_failed | (order.beat != 0), when=alive)
        self.lemma(self.probe("checked", order.place_bits) == order.count)
        begun = alive & (order.beat != 0)
        self.lemma(self.probe("check.operation", 4) == order.bits[:4], when=begun)
        moves = self.probe("check.compressed", 1)
        is_move = Cat(order.bits[:4] == OPERATIONS[name].code for name in ("load", "store")).any()
        self.lemma(moves == (is_move & order.bits[24]), when=begun)
        if config.skip_masked:
            multiply = OPERATIONS["multiply"]
            flag = next(field.low for field in multiply.fields if field.name == "skip_masked")
            skips = self.probe("check.skips", 1)
            self.lemma(skips == ((order.bits[:4] == multiply.code) & order.bits[flag]), when=begun)
        for name, (low, width) in token_fields().items():
            self.lemma(self.probe(f"check.{name}_held", width) == order.bits[low : low + width], when=begun)
        for name, rule in (("was_reserved", has_reserved), ("was_below", has_illegal_field)):
            found = self.probe(f"check.{name}", 1)
            for k in range(1, COMMAND_BEATS):
                wrong = rule(config, order.bits, COMMAND_BITS * k)
                self.lemma(found == wrong, when=alive & (order.beat == k))
        for i, producer in enumerate(UNITS):
            for j, consumer in enumerate(UNITS):
                count = self.probe(f"check.{producer}_to_{consumer}", 4)
                self.lemma(count == order.counts[i][j], when=alive)
            chosen = self.of_consumer(order.counts[i])
            total = (order.total["produced"][i] - order.total["consumed"][i])[: order.token_bits]
            self.lemma(chosen == total, when=alive)
            self.lemma(total <= MAX_TOKENS)
        self.lemma(order.code != 0, when=order.refused)

    def _add_window_lemmas(self) -> None:
        """State the lemmas about the window and its memory."""
        order = self.order
        window, count = order.window, self.ahead(order.count)
        self.lemma(count <= window)
        self.lemma(self.ahead(order.refused_at) + 1 == count, when=order.refused)
        self.distance = [(Const(k, order.place_bits) - self.done)[: order.place_bits - 1] for k in range(window)]
        self.present = [distance < count for distance in self.distance]
        stored = [
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
            main = Cat(*(each.owed[k] for each in self.monitors if each.name != "output")).any()
            left = Mux(refused, 3, Cat(main, self.monitors[output].owed[k]))
            self.lemma(self.probe(f"left_{k}", 2) == left, when=present)
            for name, tokens in stored[k].items():
                self.lemma(tokens == entry.tokens[name], when=present)
            # Tokens are written with the first beat, before the descriptor is complete.
            coming = ~order.refused & (order.beat != 0) & (order.slot(order.count) == k)
            for name, (low, width) in token_fields().items():
                self.lemma(stored[k][name] == order.bits[low : low + width], when=coming)
        beat, slot = self.watched[:2], self.watched[2:]
        shown = Array(self.present)[slot] | (~order.refused & (order.slot(order.count) == slot) & (order.beat > beat))
        self.lemma(self.probe("window.word", COMMAND_BITS) == self.word, when=shown)
        here = [(beat == 0) & (slot == k) for k in range(window)]
        for k, entry in enumerate(order.entries):
            for name, (low, width) in token_fields().items():
                bits = self.word[low : low + width]
                self.lemma(bits == entry.tokens[name], when=here[k] & self.present[k])
                self.lemma(bits == order.bits[low : low + width], when=here[k] & shown & ~self.present[k])

    def _add_unit_lemmas(self) -> None:
        """State the lemmas about each unit's place in the window, the read port, and errors."""
        order = self.order
        window, count = order.window, self.ahead(order.count)
        reading, sending = self.probe("reading", 1), self.probe("sending", 1)
        served, sends = self.probe("served", 3), self.probe("beat_2", 2)
        read = self.probe("window.read", COMMAND_BITS)
        self.lemma(~(reading & sending))
        self.lemma(served < len(UNITS), when=reading | sending)
        limited, limit = self._add_error_lemmas(count)
        checked = self.probe("checked", order.place_bits)
        operations = [self.probe(f"operation_{k}", 3) for k in range(window)]
        readies, looks = [], []
        for v, each in enumerate(self.monitors):
            place = self.probe(f"{each.name}_place", order.place_bits)
            ready, begun, failed = (self.probe(f"{each.name}_{name}", 1) for name in ("ready", "sent", "failed"))
            operation = Array(operations)[place[:-1]]
            found = (place != checked) & Cat(*(operation == code for code in CODES[each.name])).any()
            readies.append(ready)
            looks.append(failed)
            next_is_own = reading & (served == v)
            sent = sending & (served == v)
            self.lemma(place == each.at)
            self.lemma(self.ahead(each.at) <= count)
            self.lemma(each.next_is_own, when=found)
            self.lemma(found, when=ready | next_is_own)
            self.lemma(~ready, when=next_is_own)
            self.lemma(ready, when=begun | each.begun | each.wrong | sent)
            self.lemma(each.begun, when=each.wrong)
            self.lemma(begun == ((each.begun | each.begins) & ~each.wrong))
            self.lemma(each.wrong, when=failed)
            self.lemma(self.probe(f"{each.name}_error_2", 4) == each.error, when=each.wrong)
            reported = limited & (self.ahead(limit) <= self.ahead(each.at))
            self.lemma(reported | failed, when=each.wrong)
            self.lemma(begun, when=sent)
            self.lemma(each.sent == sends, when=sent)
            self.lemma(each.sent == Mux(each.begun & ~each.wrong, COMMAND_BEATS, 0), when=~sent)
            self.lemma(each.begun == (sends != 0), when=sent & (sends != 0))
            self.lemma(~each.wrong, when=sent)
            entry_tokens = {
                name: order.at([entry.tokens[name] for entry in order.entries], each.at) for name in token_fields()
            }
            for name in ("wait", "signal"):
                field = entry_tokens[f"output_{name}" if each.name == "output" else name]
                others = Cat(field[:v], field[v + 1 :])
                self.lemma(self.probe(f"{each.name}_{name}", len(UNITS) - 1) == others, when=ready)
            for name, (low, width) in token_fields().items():
                self.lemma(read[low : low + width] == entry_tokens[name], when=next_is_own)
            this = Cat(each.sent[:2], order.slot(each.at)) == self.watched
            self.lemma(read == self.word, when=sent & this)
            for k, entry in enumerate(order.entries):
                owed = entry.units[v] & self.present[k] & (self.distance[k] >= self.ahead(each.at))
                self.lemma(each.owed[k] == owed)
        # Each cycle without progress decrements one of these counts.
        looked = sum(each.wrong & ~looks[v] for v, each in enumerate(self.monitors))
        self.lemma(self.idle_cycles <= 2 * sum(readies) + reading + looked + sending)
        self.lemma(self.reporting_cycles <= looked + ~reading + self.dut.failed)

    def _add_error_lemmas(self, count: Value) -> tuple[Value, Value]:
        """State the lemmas about the first error; return whether there is one, and its place."""
        order = self.order
        limited, limit = self.probe("limited", 1), self.probe("limit", order.place_bits)
        code = self.probe("code", 4)
        refused_here = order.refused & (limit == order.refused_at)
        self.lemma(self.ahead(limit) < count, when=limited)
        self.lemma(limited, when=order.refused)
        at_failed_unit = [each.wrong & (limit == each.at) for each in self.monitors]
        self.lemma(refused_here | Cat(*at_failed_unit).any(), when=limited)
        found_code = [at & (each.error == code) for at, each in zip(at_failed_unit, self.monitors, strict=True)]
        self.lemma(Mux(refused_here, code == order.code, Cat(*found_code).any()), when=limited)
        self.lemma(self.ahead(limit) <= self.ahead(order.refused_at), when=order.refused)
        self.lemma(limited & (limit == self.done), when=self.dut.failed)
        return limited, limit

    def _add_token_lemmas(self) -> None:
        """State the lemmas about the tokens of each pair of units.

        Their number is the tokens produced up to the producer's place minus the tokens consumed up to the consumer's.
        """
        order = self.order
        produced, consumed = order.before["produced"], order.before["consumed"]
        consumed_to = (self.at + self.begun)[: order.place_bits]
        for i, producer in enumerate(self.monitors):
            tokens = self.tokens[i]
            total = order.total["produced"][i], order.total["consumed"][i]
            produced_now = Mux(producer.at == order.count, total[0], order.at(produced[i], producer.at))
            consumed_now = Mux(self.at == order.count, total[1], order.at(consumed[i], self.at)) + (
                self.begun & self.waits[i]
            )
            self.lemma(self.token_counts[i][0] == produced_now)
            self.lemma(self.token_counts[i][1] == consumed_now[: order.token_bits])
            self.lemma(tokens <= MAX_TOKENS + order.window)
            for k, entry in enumerate(order.entries):
                last = self.distance[k] + 1 == self.ahead(order.count)
                counts_after = [
                    Mux(last, total[n], before[i][(k + 1) % order.window])
                    for n, before in enumerate((produced, consumed))
                ]
                signals, waits = order.signals(entry, i), order.waits_for(entry, i)
                here = self.present[k]
                self.lemma(counts_after[0] == (produced[i][k] + signals)[: order.token_bits], when=here)
                self.lemma(counts_after[1] == (consumed[i][k] + waits)[: order.token_bits], when=here)
                between = (produced[i][k] - consumed[i][k])[: order.token_bits]
                self.lemma((between <= MAX_TOKENS) & (between >= waits), when=here)
                passed = here & (self.distance[k] <= self.ahead(producer.at))
                self.lemma((produced_now - produced[i][k])[: order.token_bits] <= order.window, when=passed)
                begun = here & (self.distance[k] <= self.ahead(consumed_to))
                self.lemma((consumed_now - consumed[i][k])[: order.token_bits] <= order.window, when=begun)
            hardware = [
                self.probe(f"{producer.name}_to_{consumer}", (MAX_TOKENS + order.window).bit_length())
                if consumer != producer.name
                else tokens
                for consumer in UNITS
            ]
            own = self.consumer == i
            held = (tokens - (self.begins & self.waits[i]))[: order.token_bits]
            self.lemma(self.of_consumer(hardware) == held, when=~own)


PROOF = Proof(
    name="tokens",
    build=SequencerHarness,
    applies=lambda config: isinstance(config, CoreConfig),
    broken_variants=BROKEN_VARIANTS,
    cover_depth=10,
    broken_config=load_any_preset("core"),
)
