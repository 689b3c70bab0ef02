"""Models of joined cores: they drive the ports of all cores, and check every transfer there and at memory."""

from collections import deque
from random import Random
from typing import NamedTuple

from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.verify.pins import Pins
from tensordash_sim.verify.units.bounds import PAGE, is_inside

__all__ = ["ReadModel", "WriteModel"]

QUEUED_WRITES = 8
"""Maximum number of write bursts whose data have not been written."""


class Burst(NamedTuple):
    """A burst. `number` is its ID at the core, or at memory."""

    number: int
    address: int
    beats: int


class _Model:
    """The address channels of all cores.

    Parameters
    ----------
    pins : Pins
        The pins.
    random : Random
        Source of all random decisions.
    content : Memory
        The memory.
    size : int
        Bytes of a beat.
    address_bits : int
        Bits of an address.
    prefixes : list of str
        Prefixes of the cores' pin names, then memory's.
    """

    channel = ""

    def __init__(
        self, pins: Pins, random: Random, content: Memory, *, size: int, address_bits: int, prefixes: list[str]
    ) -> None:
        self.pins, self.random, self.content, self.size, self.address_bits = pins, random, content, size, address_bits
        *self.cores, self.memory = prefixes
        self.numbers = range(len(self.cores))
        self.rate = 0.6  # probability that an idle core begins a burst in a cycle
        self.reset()

    def reset(self) -> None:
        """Discard all transfers."""
        self.offers: list[Burst | None] = [None] * len(self.cores)
        self.passed_over = [0] * len(self.cores)
        self.taken: deque[Burst] = deque()  # bursts that memory has not taken, with memory's ID

    def pin(self, core: int | None, name: str) -> int:
        """Return the value of a core's pin, or of memory's."""
        return self.pins.read((self.memory if core is None else self.cores[core]) + name)

    def drive_core(self, core: int, **values: int) -> None:
        """Drive a core's pins."""
        self.pins.drive(**{self.cores[core] + name: value for name, value in values.items()})

    def random_burst(self, number: int) -> Burst:
        """Return a burst within a page. One in ten has one upper bit of its address inverted."""
        beats = self.random.choice([1, 1, 2, 2, 8, self.random.randint(1, min(256, PAGE // self.size))])
        address = self.content.base + PAGE * self.random.randrange(len(self.content.bytes) // PAGE)
        address += self.size * self.random.randint(0, PAGE // self.size - beats)
        if self.random.random() < 0.1:
            address ^= 1 << self.random.randrange(PAGE.bit_length() - 1, self.address_bits)
        return Burst(number, address, beats)

    def is_in_memory(self, burst: Burst) -> bool:
        """Return whether memory has all bytes of a burst."""
        return self.content.read(burst.address, burst.beats * self.size) is not None

    def drive_address(self, core: int) -> None:
        """Offer a core's burst, or drive random bits without valid."""
        offer, channel = self.offers[core], self.channel
        number, address, beats = offer or self.random_burst(self.random.getrandbits(1))
        values = {"id": number, "addr": address, "len": beats - 1, "valid": int(offer is not None)}
        self.drive_core(core, **{channel + name: value for name, value in values.items()})

    def take(self, allowed: list[set[int]], room: bool = True) -> tuple[Burst | None, set[int]]:
        """Return the burst that is taken in this cycle, and its cores. Check the choice, and memory's next address.

        Parameters
        ----------
        allowed : list of set of int
            The sets of cores whose burst may be taken.
        room : bool
            Whether a burst can be taken at all.
        """
        channel, where = self.channel, f"cycle {self.pins.cycle}: "
        is_taken = self.pin(None, f"{channel}valid") and self.pin(None, f"{channel}ready")
        if self.pin(None, f"{channel}valid"):
            number, address, length = (self.pin(None, channel + name) for name in ("id", "addr", "len"))
            sent = Burst(number, address, length + 1)
            assert self.taken, f"{where}{sent} is offered to memory, but no core offered it"
            assert sent == self.taken[0], f"{where}{sent} is offered to memory, not {self.taken[0]}"
        assert len(self.taken) == self.pin(None, f"{channel}valid"), f"{where}{self.taken} is not offered to memory"
        if is_taken:
            self.taken.popleft()
        cores = {core for core in self.numbers if self.pin(core, f"{channel}ready")}
        if not allowed or not room or self.taken:
            assert not cores, f"{where}bursts of {cores} are taken, which must wait"
            return None, cores
        assert cores in allowed, f"{where}a burst of {cores} is taken, not one of {allowed}"
        for core in set().union(*allowed):
            self.passed_over[core] = 0 if core in cores else self.passed_over[core] + 1
            assert self.passed_over[core] < len(self.cores), f"{where}core {core} starves"
        core = min(cores)
        burst = self.offers[core]
        assert burst is not None
        self.taken.append(burst._replace(number=1 if channel == "ar" and burst.number else core << 1))
        for each in cores:
            self.offers[each] = None
        return burst, cores


class ReadModel(_Model):
    """The cores' reads. All cores read one sequence of bursts, and other bursts between these.

    Parameters
    ----------
    outstanding : int
        As in `ReadJoin`.

    Attributes
    ----------
    patience : int
        As in `ReadJoin`.
    shared : (int, int)
        The lowest and the highest address of shared bursts.
    """

    channel = "ar"

    def __init__(self, *args, outstanding: int, **more) -> None:
        self.outstanding, self.patience, self.shared = outstanding, 0, (1, 0)
        self.shared_reads = self.beats = 0
        super().__init__(*args, **more)

    def reset(self) -> None:
        """Discard all transfers."""
        super().reset()
        self.places = [0] * len(self.cores)  # bursts of the sequence that each core has begun
        self.common = self.random_burst(1)  # the newest burst of the sequence
        self.quiet = 0  # cycles that a shared burst has waited while none began
        self.tensors = 0  # outstanding bursts of tensors
        # Data by core and ID: bytes, None for an error, and whether it is the last beat.
        self.expected: list[list[deque[tuple[int | None, int]]]] = [[deque(), deque()] for _ in self.cores]
        self.ready = [0] * len(self.cores)

    @property
    def idle(self) -> bool:
        """Whether all cores have all their data."""
        return not (any(self.offers) or self.taken or any(queue for each in self.expected for queue in each))

    def _next(self, core: int) -> Burst | None:
        random, draw, newest = self.random, self.random.random(), max(self.places)
        is_calm = self.pins.cycle // 128 % 2 == 0  # cores offer little but the sequence
        if self.places[core] < newest and draw < 0.1:  # a descriptor where the other cores read the sequence's burst
            return self.common._replace(number=0)
        if draw < (0.99 if is_calm else 0.45) and (self.places[core] < newest or min(self.places) == newest):
            if self.places[core] == newest:
                self.common = self.random_burst(1)
            self.places[core] += 1
            return self.common
        if is_calm and draw < 0.99:
            return None
        if draw > 0.8:
            return self.random_burst(random.randint(0, 1))
        # A burst that differs from the newest of the sequence in one field, or in one bit.
        _, address, beats = self.common
        lowest, top = self.size.bit_length() - 1, self.address_bits - 1
        flipped = address ^ 1 << random.choice([lowest, top, random.randint(lowest, top)])
        longer = (beats - 1 ^ 1 << random.choice([7, random.randrange(8)])) + 1
        return random.choice([Burst(0, address, beats), Burst(1, address, longer), Burst(1, flipped, beats)])

    def _is_valid(self, burst: Burst) -> bool:
        return burst.address % PAGE + burst.beats * self.size <= PAGE

    def drive(self, stall: float) -> None:
        """Drive the cores' pins for a cycle. `stall` is the probability that a core is not ready."""
        for core in self.numbers:
            if self.offers[core] is None and self.random.random() < self.rate:
                burst = self._next(core)
                self.offers[core] = burst if burst and self._is_valid(burst) else None
            self.drive_address(core)
            self.ready[core] = int(self.random.random() >= stall)
            self.drive_core(core, rready=self.ready[core])

    def observe(self) -> None:
        """Check all transfers of a cycle."""
        self._observe_data()
        valid = {core: burst for core, burst in enumerate(self.offers) if burst}
        waiting = {core for core, burst in valid.items() if burst.number and is_inside(self.shared, burst.address)}
        groups = {
            core: {core, *(j for j in waiting if core in waiting and valid[j] == burst)}
            for core, burst in valid.items()
        }
        allowed = [
            group
            for core, group in groups.items()
            if (core not in waiting or len(group) == len(self.cores) or self.quiet >= self.patience)
            and (not valid[core].number or self.tensors < self.outstanding)
        ]
        burst, cores = self.take(allowed)
        expires = cores <= waiting and 0 < len(cores) < len(self.cores)
        assert self.pins.read("expired") == expires, f"cycle {self.pins.cycle}: expired must be {int(expires)}"
        self.quiet = 0 if not waiting or cores & waiting else self.quiet + 1
        if self._ended_tensor:
            self.tensors -= 1
        if burst is None:
            return
        self.tensors += burst.number
        self.shared_reads += len(cores) == len(self.cores)
        for core in cores:
            for k in range(burst.beats):
                data = self.content.read(burst.address + k * self.size, self.size)
                beat = None if data is None else int.from_bytes(data, "little"), int(k + 1 == burst.beats)
                self.expected[core][burst.number].append(beat)

    def _observe_data(self) -> None:
        where = f"cycle {self.pins.cycle}: "
        valid, ready = self.pin(None, "rvalid"), self.pin(None, "rready")
        assert ready == all(self.ready), f"{where}rready must be high if and only if all cores are ready"
        self._ended_tensor = valid and ready and self.pin(None, "rlast") and self.pin(None, "rid") & 1
        receivers = [core for core in self.numbers if self.pin(core, "rvalid")]
        assert bool(receivers) == bool(valid and ready), f"{where}{receivers} get a beat that is not transferred"
        for core in receivers:
            data, last = self.expected[core][self.pin(core, "rid")].popleft()
            response = self.pin(core, "rresp")
            assert response == self.pin(None, "rresp")
            assert bool(response) == (data is None), f"{where}core {core} has response {response}"
            assert data in (None, self.pin(core, "rdata")), f"{where}core {core} gets other data"
            assert self.pin(core, "rlast") == last, f"{where}core {core} has rlast {1 - last}"
            self.beats += 1


class WriteModel(_Model):
    """The cores' writes."""

    channel = "aw"

    def reset(self) -> None:
        """Discard all transfers."""
        super().reset()
        cores = self.cores
        self.data: list[deque[tuple[int, int, int]]] = [deque() for _ in cores]  # data, strobes, last
        self.planned: list[Burst | None] = [None for _ in cores]  # bursts whose address waits for the core
        self.is_offered = [False] * len(cores)
        self.senders: deque[tuple[int, Burst]] = deque()  # bursts whose data are not all written
        self.is_written = False  # the first sender has written a byte
        self.expected: list[deque[bool]] = [deque() for _ in cores]  # errors
        self.ready = [0] * len(cores)
        self.answers = 0

    @property
    def idle(self) -> bool:
        """Whether all writes are answered."""
        return not (any(self.offers) or any(self.planned) or self.senders or any(self.expected))

    def drive(self, stall: float) -> None:
        """Drive the cores' pins for a cycle. `stall` is the probability that a core is not ready or has no data."""
        random = self.random
        for core, data in enumerate(self.data):
            if self.planned[core] is None and random.random() < self.rate:
                burst = self.planned[core] = self.random_burst(random.getrandbits(1))
                masks = random.choice([[0], [-1], [0, 1, -1]])
                for k in range(burst.beats):
                    strobes = random.choice(masks) & random.getrandbits(self.size)
                    data.append((random.getrandbits(self.size * 8), strobes, int(k + 1 == burst.beats)))
            if self.offers[core] is None and self.planned[core] and random.random() >= stall:
                self.offers[core], self.planned[core] = self.planned[core], None
            self.drive_address(core)
            self.is_offered[core] = bool(data) and (self.is_offered[core] or random.random() >= stall)
            beat = data[0] if self.is_offered[core] else (0, 0, random.getrandbits(1))
            self.ready[core] = int(random.random() >= stall)
            pins = dict(zip(("wdata", "wstrb", "wlast"), beat, strict=True))
            self.drive_core(core, **pins, wvalid=int(self.is_offered[core]), bready=self.ready[core])

    def observe(self) -> None:
        """Check all transfers of a cycle."""
        self._observe_answers()
        queued = len(self.senders)
        self._observe_data()
        allowed = [{core} for core, burst in enumerate(self.offers) if burst]
        burst, cores = self.take(allowed, queued < QUEUED_WRITES)
        if burst:
            self.senders.append((min(cores), burst))

    def _observe_data(self) -> None:
        where = f"cycle {self.pins.cycle}: "
        sender, burst = self.senders[0] if self.senders else (None, None)
        valid, ready = self.pin(None, "wvalid"), self.pin(None, "wready")
        assert valid == (sender is not None and self.is_offered[sender]), f"{where}wvalid is {valid}"
        for core in self.numbers:
            assert self.pin(core, "wready") == (ready and core == sender), f"{where}wready of core {core} is wrong"
        if burst is None or sender is None or not valid:
            return
        beat = tuple(self.pin(None, name) for name in ("wdata", "wstrb", "wlast"))
        assert beat == self.data[sender][0], f"{where}a beat of core {sender} is {beat}"
        if ready:
            self.data[sender].popleft()
            self.is_offered[sender] = False
            self.is_written |= bool(beat[1])
            if beat[2]:
                self.expected[sender].append(self.is_written and not self.is_in_memory(burst))
                self.senders.popleft()
                self.is_written = False

    def _observe_answers(self) -> None:
        where = f"cycle {self.pins.cycle}: "
        assert self.pin(None, "bready") == all(self.ready), f"{where}bready must be high if and only if all are ready"
        receivers = [core for core in self.numbers if self.pin(core, "bvalid")]
        taken = self.pin(None, "bvalid") and self.pin(None, "bready")
        assert receivers == ([self.pin(None, "bid") >> 1] if taken else []), f"{where}{receivers} get an answer"
        for core in receivers:
            assert not self.pin(core, "bid")
            assert self.pin(core, "bresp") == self.pin(None, "bresp")
            assert bool(self.pin(core, "bresp")) == self.expected[core].popleft(), f"{where}core {core} has an error"
            self.answers += 1
