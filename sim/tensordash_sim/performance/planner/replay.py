"""Checks a plan by replay: tensors are present when read, fit on the chip, and move the bytes that the plan claims.

The replay shares no code with the planner. It reads the graph and the plan's decisions, and derives the rest itself.
"""

from dataclasses import dataclass
from itertools import combinations
from math import ceil, isclose

from .graph import Node, Tensor
from .overlap import Overlap
from .plan import Plan
from .stages import Stage

__all__ = ["PlanError", "Replayed", "replay"]

SUM_BYTES = 4


class PlanError(ValueError):
    """A plan that cannot run, or that moves other bytes than it claims."""


@dataclass(frozen=True)
class Replayed:
    """Bytes and cycles of a plan.

    Attributes
    ----------
    loads, stores : float
        Bytes from and to DRAM.
    fullest : float
        Peak of bytes on the chip.
    tile_cycles, dram_cycles : int
        Cycles of tiles or element-wise units, and of DRAM.
    alone : int
        Cycles without overlap between stages.
    """

    loads: float
    stores: float
    fullest: float
    tile_cycles: int
    dram_cycles: int
    alone: int


def replay(plan: Plan) -> Replayed:
    """Replay a plan and check it.

    Parameters
    ----------
    plan : Plan
        Result of `plan_step`, or written by hand.

    Raises
    ------
    PlanError
        If a node never runs or runs twice, or reads a tensor that is missing or incomplete; if a stage's tensors do not
        fit; or if a stage's bytes differ from its tensors' bytes.
    """
    return _Replay(plan).run()


class _Replay:
    def __init__(self, plan: Plan) -> None:
        self.plan, self.graph = plan, plan.graph
        self.in_dram = {name for name, tensor in self.graph.tensors.items() if tensor.is_input}
        self.on_chip_before: set[str] = set()

    def run(self) -> Replayed:
        ran = [name for stage in self.plan.stages for name in stage.nodes]
        if sorted(ran) != sorted(self.graph.nodes):
            raise PlanError(f"each node must run once, not {sorted(set(ran) ^ set(self.graph.nodes)) or 'some twice'}")
        loads = stores = fullest = 0.0
        tiles = dram = alone = 0
        at = [0.0] * len(self.plan.stages)
        for place, stage in enumerate(self.plan.stages):
            loaded, stored, space = self._stage(place, stage)
            loads, stores, at[place] = loads + loaded, stores + stored, at[place] + space
            for one in self.plan.residents:
                if one.first <= place <= one.last:
                    at[place] += self.graph.tensors[one.tensor].bytes
            work = max(stage.cycles, stage.element_cycles)
            moved = ceil((loaded + stored) / self.plan.budget.dram_bytes_per_cycle)
            tiles, dram, alone = tiles + work, dram + moved, alone + max(work, moved)
        loads += self._check_overlaps(at)
        for place, size in enumerate(at):
            if size > self.plan.budget.capacity * (1 + 1e-9):
                raise PlanError(f"stage {place} needs {size:.0f} bytes of {self.plan.budget.capacity:.0f} on the chip")
        fullest = max(at, default=0.0)
        missing = [name for name, tensor in self.graph.tensors.items() if tensor.wanted and name not in self.in_dram]
        if missing:
            raise PlanError(f"{missing[0]} must be in DRAM after the step")
        return Replayed(loads, stores, fullest, tiles, dram, alone)

    def _stage(self, place: int, stage: Stage) -> tuple[float, float, float]:
        """Check a stage; return its bytes loaded, stored, and on the chip."""
        self.on_chip_before = {one.tensor for one in self.plan.residents if one.first < place <= one.last}
        nodes = [self.graph.nodes[name] for name in stage.nodes]
        made: dict[str, Node] = {}
        for node in nodes:
            for name in node.reads:
                self._check_source(stage, node, self.graph.tensors[name], made)
            made |= dict.fromkeys(node.writes, node)
        outside = [self.graph.nodes[name] for other in self.plan.stages[place + 1 :] for name in other.nodes]
        staying = {one.tensor for one in self.plan.residents if one.first == place}
        leaves = {
            name
            for name in made
            if self.graph.tensors[name].wanted or (name not in staying and any(name in node.reads for node in outside))
        }
        inputs = {name for node in nodes for name in node.reads if name not in made and name not in self.on_chip_before}
        on_chip = self.on_chip_before | staying
        loads, stores, space = (self._around if stage.around else self._parts)(stage, nodes, inputs, leaves, on_chip)
        for what, planned, found in (("load", stage.loads, loads), ("store", stage.stores, stores)):
            for name in planned.keys() | found.keys():
                if not isclose(planned.get(name, 0.0), found.get(name, 0.0)):
                    sizes = [each.get(name, 0.0) for each in (found, planned)]
                    raise PlanError(f"stage {place} must {what} {sizes[0]:.0f} bytes of {name}, not {sizes[1]:.0f}")
        if not isclose(stage.space, space, abs_tol=1):
            raise PlanError(f"stage {place} needs {space:.0f} bytes on the chip, not {stage.space:.0f}")
        self.in_dram |= leaves
        return sum(loads.values()), sum(stores.values()), space

    def _check_source(self, stage: Stage, node: Node, tensor: Tensor, made: dict[str, Node]) -> None:
        """Check that a tensor that a node reads is on the chip, in DRAM, or written before it in the same part."""
        if tensor.name not in made:
            if tensor.name not in self.on_chip_before and tensor.name not in self.in_dram:
                raise PlanError(f"{node.name} reads {tensor.name}, which is neither on the chip nor in DRAM")
            return
        by_parts = bool(made[tensor.name].axis)
        if node.axis and (not by_parts or node.axis not in tensor.axes):
            raise PlanError(f"{node.name} reads {tensor.name}, but its stage has only a part of that")
        if not node.axis and by_parts and stage.axis in tensor.axes:
            raise PlanError(f"{node.name} reads all of {tensor.name}, which its stage never has")

    def _stored(self, tensor: Tensor) -> float:
        return tensor.packed if "compress" in self.plan.measures else tensor.bytes

    def _parts(
        self, stage: Stage, nodes: list[Node], inputs: set[str], leaves: set[str], on_chip: set[str]
    ) -> tuple[dict[str, float], dict[str, float], float]:
        """Replay a stage in which each part passes all nodes; tensors stay from their first to their last use."""
        tensors, cut = self.graph.tensors, [node for node in nodes if node.axis]
        if {node.axis for node in cut} - {stage.axis}:
            raise PlanError(f"the stage of {stage.nodes[0]} must have one axis")
        loads, stores = dict.fromkeys(inputs, 0.0), dict.fromkeys(leaves, 0.0)
        sums = {name for node in cut for name in node.writes if stage.axis not in tensors[name].axes}
        held = sum(tensors[name].bytes for name in stage.held)
        memory: dict[str, float] = {}
        fullest = 0.0
        for index, node in enumerate(cut):
            for name in (*node.reads, *node.writes):
                if stage.axis in tensors[name].axes and name not in on_chip:
                    memory[name] = tensors[name].part(stage.parts)
            fullest = max(fullest, sum(memory.values()))
            later = {name for each in cut[index + 1 :] for name in (*each.reads, *each.writes)}
            memory = {name: size for name, size in memory.items() if name in later}
        for name in inputs:
            is_whole = stage.axis not in tensors[name].axes and any(name in node.reads for node in cut)
            times = stage.parts if is_whole and name not in stage.held else 1
            loads[name] = times * tensors[name].packed
        for name in leaves:
            stores[name] = self._stored(tensors[name])
        for name in sums - stage.held - on_chip:
            if stage.parts > 1:
                is_read = any(name in node.reads for node in nodes if not node.axis)
                stores[name] = stage.parts * tensors[name].bytes
                loads[name] = (stage.parts - 1 + is_read) * tensors[name].bytes
        return loads, stores, held + fullest

    def _around(
        self, stage: Stage, nodes: list[Node], inputs: set[str], leaves: set[str], on_chip: set[str]
    ) -> tuple[dict[str, float], dict[str, float], float]:
        """Replay a stage in which one tensor, or a piece of one, stays on the chip while all others stream past."""
        tensors = self.graph.tensors
        products = [node for node in nodes if node.kind == "product"]
        is_sum = any(stage.around in node.writes for node in products)
        if is_sum and (len(products) != 1 or products[0].writes != (stage.around,)):
            raise PlanError(f"{stage.around} must be an operand or the only product's result")
        for node in products:
            if not is_sum and stage.around not in (node.reads[0], *(node.reads[1:] if len(node.reads) == 2 else ())):
                raise PlanError(f"{stage.around} must be an operand of {node.name}, as of all products of its stage")
        derived = {name for node in products for name in node.writes}
        sums = {name for node in nodes if node.kind == "sums" for name in node.writes}
        for node in nodes:
            if node.axis and sums & set(node.reads):
                raise PlanError(f"{node.name} reads sums before everything has passed {stage.around}")
            if node.kind == "row-wise":
                raise PlanError(f"{node.name} needs complete rows, which stream past {stage.around}")
            if derived & set(node.reads):
                if node.kind == "product":
                    raise PlanError(f"{node.name} reads the result of another product of its stage")
                derived |= set(node.writes)
        size = tensors[stage.around].values * SUM_BYTES if is_sum else tensors[stage.around].bytes
        size = 0.0 if stage.around in on_chip and not is_sum else size
        loads = {name: tensors[name].packed for name in inputs}
        if stage.parts < ceil(size / self.plan.budget.capacity):
            raise PlanError(f"{stage.around} must be cut into more pieces than {stage.parts}")
        if stage.parts > 1:
            if len(products) > 1:
                raise PlanError(f"{stage.around} must be completely on the chip for several products")
            reads = products[0].reads
            streamed_operands = [
                names
                for names in (reads[:1], reads[1:])
                if stage.around not in names and set(names) <= inputs | self.on_chip_before
            ]
            if not streamed_operands:
                raise PlanError(f"the operand that streams past {stage.around} again must be in DRAM")
            for name in min(streamed_operands, key=lambda names: sum(loads.get(name, 0.0) for name in names)):
                if name in loads:
                    loads[name] *= stage.parts
        # The part on the chip is at most the space that the stage may use.
        return (
            loads,
            {name: self._stored(tensors[name]) for name in leaves},
            min(size, stage.space if stage.parts > 1 else size),
        )

    def _pauses(self, one: Overlap, stage: Stage) -> float:
        """Check and return the bytes that a stage loads again after pauses; it must hold no sums."""
        held = set(stage.held) | ({stage.around} if stage.around else set())
        made = {name for node in stage.nodes for name in self.graph.nodes[node].writes}
        needed = sum(self.graph.tensors[name].packed for name in held - made)
        if one.resumed and (held & made or not isclose(one.reloaded_bytes, needed)):
            raise PlanError(f"stage {one.stage} must load {needed:.0f} bytes again after a pause, and hold no sums")
        return needed * len(one.resumed)

    def _check_overlaps(self, at: list[float]) -> float:
        """Check that overlapping stages run after the stages that they read and before the stages that read them.

        The method adds their space to the stages that they overlap, and returns the bytes that they load again.
        """
        repeated_bytes = 0.0
        spans = {place: range(place, place + 1) for place in range(len(at))}
        for one in self.plan.overlaps:
            if one.left < -1e-9 or any(share < 0 for _, share in one.shares):
                raise PlanError(f"shares of stage {one.stage} must be from 0 to all of its bytes")
            repeated_bytes += self._pauses(one, self.plan.stages[one.stage])
            spans[one.stage] = one.span
            for place in one.places:
                at[place % len(at)] += self.plan.stages[one.stage].space if place != one.stage else 0.0
        where = {name: place for place, stage in enumerate(self.plan.stages) for name in stage.nodes}
        made = {name: node.name for node in self.graph.nodes.values() for name in node.writes}
        phases = [{self.graph.nodes[name].phase for name in stage.nodes} for stage in self.plan.stages]
        for first, second in combinations(range(len(at)), 2):
            if max(phases[first]) > min(phases[second]):
                raise PlanError(f"stage {second} is of a phase that is over")
            if max(phases[first]) < min(phases[second]) and spans[first].stop > spans[second].start:
                raise PlanError(f"stage {first} must be done before the next phase begins")
        for node in self.graph.nodes.values():
            for name in node.reads:
                maker, second = where.get(made.get(name, "")), where[node.name]
                if maker is not None and maker != second and spans[maker].stop > spans[second].start:
                    raise PlanError(f"{node.name} reads {name} before it is complete")
        for tensor in self.graph.tensors.values():
            if tensor.name in made and tensor.wanted:
                last = spans[where[made[tensor.name]]].stop - len(at)
                next_reads = [where[node.name] for node in self.graph.nodes.values() if tensor.becomes in node.reads]
                if last > min(
                    (spans[place].start for place in next_reads), default=0 if not tensor.becomes else len(at)
                ):
                    raise PlanError(f"{tensor.name} must be complete before the next step reads it")
        return repeated_bytes
