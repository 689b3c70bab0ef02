"""Read join: the read channels of several cores at one AXI4 port, and bursts that all cores share."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from ..block import Block, placed
from ..configuration.core_config import MAX_CORES
from ..configuration.parameters import require_int
from ..short_queue import ShortQueue
from .axi import AxiReadSignature, bounds_layout
from .bursts import within_bounds

__all__ = ["PATIENCE_BITS", "ReadJoin", "choose_least_recent", "number_bits"]

PATIENCE_BITS = 16


def number_bits(cores: int) -> int:
    """Return the bits of a core's number."""
    return (require_int("cores", cores, 2, MAX_CORES) - 1).bit_length()


def choose_least_recent(m: Module, requests: Value, taken: Value) -> Signal:
    """Choose the request that was taken least recently. Return the choice as one bit of each request.

    A request that cannot be chosen in some cycles still moves ahead of those that are taken. So none starves.
    """
    count = len(requests)
    chosen = Signal(count)
    blocked: list[Value] = [Const(0)] * count
    for k in range(count):
        for j in range(k):
            later = Signal(name=f"later_{j}_{k}")  # request j was taken later than request k
            blocked[j] |= requests[k] & later
            blocked[k] |= requests[j] & ~later
            m.d.sync += later.eq(Mux(taken & (chosen[j] | chosen[k]), chosen[j], later))
    m.d.comb += chosen.eq(requests & ~Cat(blocked))
    return chosen


class ReadJoin(Block):
    """Joins the reads of several cores. A burst of tensors that all cores read is read once and answered to all.

    Bursts of tensors (ID 1) within `shared` wait until every core offers a burst with the same address and length. If
    no such burst begins for `patience` cycles while one waits, it is read for the cores that offer it. Other bursts do
    not wait, except while an earlier burst of their core does. Of several bursts, the join chooses the core whose
    burst it chose least recently.

    A beat is offered and transferred only while all cores are ready: `rready` depends on nothing that memory drives,
    and no beat waits at a core. The cores of a burst take each beat in the same cycle.

    Timing: a burst is offered to memory in the cycle after it was taken from its cores. A burst can begin in each
    cycle. Beats pass through in the cycle in which they arrive.

    Parameters
    ----------
    cores : int
        Number of cores, 2 to 16.
    data_bits, address_bits : int
        Widths of the bus.
    outstanding : int
        Maximum number of outstanding bursts of tensors, 2 to 256.

    Members
    -------
    cores : In(AxiReadSignature), array
        The cores' reads. ID 0 fetches descriptors, ID 1 loads tensors.
    axi : Out(AxiReadSignature)
        To memory. Reads of tensors have ID 1, descriptors of core k have ID 2k. Data of different IDs may arrive in any
        order.
    shared : In(bounds_layout)
        The pages of shared tensors; a base above the limit: none. It may change while no burst is outstanding.
    patience : In(16)
        Cycles that a shared burst waits for the other cores.
    expired : Out(1)
        A shared burst is taken that not all cores offer.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: AMBA AXI Protocol (IHI 0022), "Transaction ordering" and "Handshake process".
    """

    def __init__(self, *, cores: int, data_bits: int, address_bits: int, outstanding: int = 64) -> None:
        id_bits = 1 + number_bits(cores)
        self.number = cores
        self._queue = ShortQueue(bits=cores, places=require_int("outstanding", outstanding, 2, 256))
        self._skipped = (data_bits // 8).bit_length() - 1  # bits of an address below a beat
        bus = {"data_bits": data_bits, "address_bits": address_bits}
        super().__init__(
            {
                "cores": In(AxiReadSignature(**bus, id_bits=1)).array(cores),
                "axi": Out(AxiReadSignature(**bus, id_bits=id_bits)),
                "shared": In(bounds_layout(address_bits)),
                "patience": In(PATIENCE_BITS),
                "expired": Out(1),
            }
        )

    def elaborate(self, platform):
        """Choose a burst and the cores that share it, and queue these cores until its data arrive."""
        m = Module()
        axi, number = self.axi, self.number
        m.submodules.queue = placed(self._queue, platform)
        free = Signal()  # a burst can be taken
        room = Signal()  # for the cores of another burst of tensors
        readable = Signal(number)  # bursts that can be read now
        waiting = Signal(number)  # shared bursts
        complete = Signal(number)  # shared bursts that all cores offer
        impatient = Signal()
        waited = Signal(PATIENCE_BITS)
        taken = Signal()
        groups = self._groups(m, waiting, complete)
        valid = Cat(core.arvalid for core in self.cores)
        tensor = Cat(core.arid for core in self.cores)
        m.d.comb += [
            impatient.eq(waited >= self.patience),
            readable.eq(
                valid & (~waiting | complete | impatient.replicate(number)) & (~tensor | room.replicate(number))
            ),
            free.eq(~axi.arvalid | axi.arready),
            taken.eq(free & readable.any()),
        ]
        chosen = choose_least_recent(m, readable, taken)
        m.d.comb += self.expired.eq(taken & (chosen & waiting & ~complete).any())
        group = Signal(number)  # the cores that share the chosen burst
        of_tensor = Signal()
        with m.Switch(chosen):
            for k, core in enumerate(self.cores):
                with m.Case("".join("1" if j == k else "0" for j in reversed(range(number)))):
                    m.d.comb += [group.eq(groups[k]), of_tensor.eq(core.arid)]
                    with m.If(free):
                        m.d.sync += [
                            axi.arid.eq(Mux(core.arid, 1, k << 1)),
                            axi.araddr.eq(core.araddr),
                            axi.arlen.eq(core.arlen),
                        ]
        with m.If(free):
            m.d.sync += axi.arvalid.eq(readable.any())
        with m.If(~waiting.any() | (taken & (chosen & waiting).any())):
            m.d.sync += waited.eq(0)
        with m.Elif(~impatient):
            m.d.sync += waited.eq(waited + 1)
        m.d.comb += [core.arready.eq(taken & group[k]) for k, core in enumerate(self.cores)]
        self._answer(m, group, taken & of_tensor, room)
        return m

    def _groups(self, m: Module, waiting: Signal, complete: Signal) -> list[Signal]:
        """Compute for each core's burst the cores that it is read for."""
        groups = [Signal(self.number, name=f"group_{k}") for k in range(self.number)]
        for k, core in enumerate(self.cores):
            m.d.comb += [
                waiting[k].eq(
                    core.arvalid & core.arid & within_bounds(self.shared, core.araddr[self._skipped :], self._skipped)
                ),
                complete[k].eq(groups[k].all()),
                groups[k][k].eq(1),
            ]
            for j in range(k):
                other = self.cores[j]
                equal = Signal(name=f"equal_{j}_{k}")
                m.d.comb += [
                    equal.eq(waiting[j] & waiting[k] & (core.araddr == other.araddr) & (core.arlen == other.arlen)),
                    groups[k][j].eq(equal),
                    groups[j][k].eq(equal),
                ]
        return groups

    def _answer(self, m: Module, group: Signal, queued: Value, room: Signal) -> None:
        """Queue the cores of each burst of tensors, and route data by ID and by this queue."""
        axi, number = self.axi, self.number
        queue = self._queue
        target = Signal(number)
        m.d.comb += [
            room.eq(~queue.full),
            queue.added.eq(group),
            queue.adds.eq(queued),
            queue.leaves.eq(axi.rvalid & axi.rready & axi.rlast & axi.rid[0]),
            axi.rready.eq(Cat(core.rready for core in self.cores).all()),
            target.eq(Mux(axi.rid[0], queue.first, 1 << axi.rid[1:])),
        ]
        for k, core in enumerate(self.cores):
            m.d.comb += [
                core.rid.eq(axi.rid[0]),
                core.rdata.eq(axi.rdata),
                core.rresp.eq(axi.rresp),
                core.rlast.eq(axi.rlast),
                core.rvalid.eq(axi.rvalid & axi.rready & target[k]),
            ]
