"""The sequencer's checks: which descriptors are illegal for every core or for this one."""

from collections import Counter
from collections.abc import Mapping

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BITS, HEADER, UNITS, Operation, decode

__all__ = ["MAX_TOKENS", "Sequencer"]

MAX_TOKENS = 15
"""Maximum of tokens from one unit to another that are signalled and not waited for yet, in the program's order."""

SWITCHED = ("bias", "relu", "mask", "stochastic", "skip_masked")


class Sequencer:
    """Checks descriptors in the program's order.

    Parameters
    ----------
    config : CoreConfig
        The core.

    Source: docs/core.md, "Errors" and "Tokens".
    """

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        self.tokens: Counter[tuple[str, str]] = Counter()

    def refusal(self, bits: int) -> str:
        """Return the error of a descriptor, one of `ERRORS`, or an empty string; count its tokens."""
        operation, values = decode(bits)
        if operation is None:
            return "operation"
        if not 0 <= bits < 1 << BITS or bits & ~operation.mask or self._missing(values):
            return "reserved"
        fields = (*HEADER, *operation.fields)
        if any(values[field.name] < field.minimum for field in fields) or not self._fit(operation, values):
            return "field"
        return "" if self._pass(operation, values) else "tokens"

    def _missing(self, values: Mapping[str, int]) -> bool:
        """Return whether a descriptor uses a feature that this core lacks."""
        config = self.config
        return (
            any(values.get(name) and not getattr(config, name) for name in SWITCHED)
            or bool(values.get("scale") and not config.scale)
            or bool(values.get("compressed") and not config.compression)
            or bool((values.get("nvfp4") or values.get("by_channel")) and not config.nvfp4)
        )

    def _fit(self, operation: Operation, values: Mapping[str, int]) -> bool:
        """Return whether the fields are consistent and in range."""
        memory, table = (values.get(name, 0) + (values.get(f"{name}_high", 0) << 32) for name in ("memory", "table"))
        if memory >> self.config.address_bits:
            return False
        if operation.name == "record":
            return memory % 32 == 0
        if operation.name in ("load", "store"):
            is_nvfp4 = values.get("nvfp4", 0)
            if not values["compressed"]:
                return memory % (self.config.group_bytes >> is_nvfp4) == 0
            if is_nvfp4:
                return False
            alone = values["count_1"] == values["count_2"] == values["count_3"] == 1
            fits = not table >> self.config.address_bits
            return alone and fits and values["segment"] > 0 and memory % 16 == 0 and table % 4 == 0
        if values.get("skip_masked"):
            walk = (values["x"], *(values[f"x_{k}"] for k in range(4)))
            if values["stride"] != 1 or any(x % self.config.tile.lanes for x in walk):
                return False
        return all(field.greatest is None or values[field.name] <= field.greatest for field in operation.fields)

    def _pass(self, operation: Operation, values: Mapping[str, int]) -> bool:
        """Count a descriptor's tokens; return whether every count stays from 0 to `MAX_TOKENS`."""
        if not operation.unit:
            return not (values["wait"] or values["signal"] or any(self.tokens.values()))
        ends = [("wait", "signal", operation.unit)]
        if operation.name == "multiply":
            ends.append(("output_wait", "output_signal", "output"))
        for wait, _, own in ends:
            for k, unit in enumerate(UNITS):
                self.tokens[unit, own] -= values[wait] >> k & 1
                if self.tokens[unit, own] < 0:
                    return False
        for _, signal, own in ends:
            for k, unit in enumerate(UNITS):
                self.tokens[own, unit] += values[signal] >> k & 1
                if self.tokens[own, unit] > MAX_TOKENS:
                    return False
        return True
