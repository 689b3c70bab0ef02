"""An exact accumulator's terms: each finite product of an active lane, in its place."""

from amaranth.hdl import Mux, Value

from tensordash import TileConfig
from tensordash.accumulator import ExactAccumulator
from tensordash.block import Block
from tensordash.formats import FloatFormat, Format
from tensordash.pe import PE

from ..harness import Fault, Harness
from ..proof import Broken, Proof
from .multiplier import is_eight_bit_exact, magnitude

__all__ = ["PROOF", "assume_products", "product_bits", "term_of"]


def largest(fmt: Format) -> int:
    """The largest magnitude of a finite operand, in units of the least."""
    if isinstance(fmt, FloatFormat):
        return max(magnitude(fmt, pattern) or 0 for pattern in range(1 << (fmt.width - 1)))
    return 1 << (fmt.width - 1)


def product_bits(config: TileConfig) -> int:
    """Bits of the magnitude of the largest finite product."""
    return (largest(config.a_format) * largest(config.b_format)).bit_length()


def assume_products(harness: Harness, dut: ExactAccumulator, bits: int) -> None:
    """A finite product has no more bits than the largest (`multiplier`)."""
    for product in dut.products:
        size = product.significand << product.shift
        harness.assume(((size >> bits) == 0) | product.infinite | product.nan)


def term_of(dut: ExactAccumulator, lane: int, bits: int) -> tuple[str, int, str]:
    """Where a term is inside: its number, in one's complement, with its width, and its sign."""
    return f"shifted_{lane}_{len(dut.products[lane].shift) - 1}", bits, f"negative_{lane}"


def build(config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Claims about every term of a tile's accumulator (docs/numerics.md, "exact")."""
    dut = PE(numerics=config.numerics, lanes=config.lanes, stages=config.stages).accumulator
    assert isinstance(dut, ExactAccumulator)
    harness = Harness(dut, fault=fault)
    bits = product_bits(config)
    assume_products(harness, dut, bits)
    for lane, product in enumerate(dut.products):
        number, width, sign = term_of(dut, lane, bits)
        term = harness.port(number, width)
        negative = harness.port(sign, 1)
        counts = dut.active[lane] & ~dut.hold & ~product.infinite & ~product.nan
        size = (product.significand << product.shift)[:bits]
        # -x is ~x + 1: the one is added behind all terms.
        expected: Value = Mux(counts, Mux(product.sign, ~size, size), 0)[:bits]
        harness.claim("a_product_is_in_its_place", (term == expected) & (negative == product.sign), when=counts)
        harness.claim("nothing_else_counts", (term == 0) & ~negative, when=~counts)
    return harness


BROKEN = (
    Broken(
        claim="a_product_is_in_its_place",
        title="a product's shift lacks its lowest bit",
        kind=ExactAccumulator,
        fault=lambda m, sound, outer: [product.shift[0].eq(0) for product in sound.products],
    ),
    Broken(
        claim="nothing_else_counts",
        title="every lane is active",
        kind=ExactAccumulator,
        fault=lambda m, sound, outer: sound.active.eq(~0),
    ),
)

PROOF = Proof(
    name="exact_term",
    build=build,
    applies=lambda config: is_eight_bit_exact(config) and isinstance(config.a_format, FloatFormat),
    broken=BROKEN,
    breaks=TileConfig(format="fp8_e4m3"),
)
