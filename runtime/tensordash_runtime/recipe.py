"""NVFP4's training recipe: scales of 16 x 16 blocks for weights, a random Hadamard transform, and layers in bf16.

Source: "Pretraining Large Language Models with NVFP4" (NVIDIA 2025, arXiv:2509.25149), section 4. Its fourth part,
stochastic rounding of gradients, is the argument `rounding` of `Device`. The tile needs no changes: it receives a
16 x 16 block as 16 ordinary blocks of 1 x 16 elements with the same scale. On a core, operands are NVFP4 tensors in
memory, and the tile multiplies them in its own format.
"""

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache, reduce

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.parameters import require_bool, require_int
from tensordash_sim.compiler.rounding import MAX_SEED
from tensordash_sim.lowering import MatrixProduct

from .backends import Emulator
from .execution import Execution
from .operands import Operand
from .values import FLOAT32, convert_like

__all__ = ["Recipe", "bf16_tile", "checked_recipe", "default_rounding", "hadamard_matrix", "hadamard_transform"]

BLOCK = 16
"""Size of the Hadamard transform, of a weight's square blocks, and of a 1 x 16 block."""
ATTENTION = ("*/bmm*",)
"""Name patterns of attention's products, both of whose factors are activations."""


@lru_cache(maxsize=16)
def hadamard_matrix(seed: int) -> NDArray[np.float64]:
    """Return a random Hadamard matrix: Sylvester's matrix divided by 4, with random signs of rows.

    Parameters
    ----------
    seed : int
        Seed of the signs, 0 to 2**32 - 1.

    Returns
    -------
    array of float64, (16, 16)
        Orthonormal; every value is 1/4 or -1/4.

    Raises
    ------
    TypeError, ValueError
        If the seed does not have 32 bits.

    Source: arXiv:2509.25149, section 4.2 and appendix C.

    Examples
    --------
    >>> matrix = hadamard_matrix(0)
    >>> np.array_equal(matrix @ matrix.T, np.eye(16)), np.unique(matrix).tolist()
    (True, [-0.25, 0.25])
    """
    require_int("seed", seed, 0, MAX_SEED)
    number = int(np.random.PCG64(seed).random_raw())
    signs = [1.0 - 2.0 * (number >> k & 1) for k in range(BLOCK)]
    sylvester = reduce(np.kron, [np.array([[1.0, 1.0], [1.0, -1.0]])] * 4)
    matrix = np.array(signs)[:, np.newaxis] * sylvester / 4
    matrix.setflags(write=False)
    return matrix


def hadamard_transform(values: NDArray[np.float32], matrix: NDArray[np.float64]) -> NDArray[np.float32]:
    """Transform blocks of 16 rows of a matrix. The product of two matrices over their rows stays the same.

    Parameters
    ----------
    values : array of float32, (..., rows, columns)
        Rows are padded with zeros to a multiple of 16.
    matrix : array of float64, (16, 16)
        From `hadamard_matrix`.

    Returns
    -------
    array of float32, (..., rows, columns)
        The transposed matrix times each block of 16 rows, in float64, rounded once. An infinity or NaN spreads to its
        block.

    Examples
    --------
    >>> a, g = np.ones((20, 2), np.float32), np.ones((20, 1), np.float32)
    >>> x, y = (hadamard_transform(each, hadamard_matrix(0)) for each in (a, g))
    >>> x.shape, (x.T @ y).tolist()
    ((32, 2), [[20.0], [20.0]])
    """
    *batch, rows, columns = values.shape
    padded = np.pad(values, [(0, 0)] * len(batch) + [(0, -rows % BLOCK), (0, 0)])
    blocks = padded.reshape(*batch, -1, BLOCK, columns)
    with np.errstate(invalid="ignore", over="ignore"):
        return (matrix.T @ blocks).astype(np.float32).reshape(padded.shape)


def bf16_tile(tile: TileConfig) -> TileConfig:
    """Return a tile of the same size that runs layers in bf16, with binned sums.

    Examples
    --------
    >>> from tensordash import load_preset
    >>> tile = bf16_tile(load_preset("nvfp4"))
    >>> tile.a_format.name, tile.scale, tile.lanes
    ('bf16', 'none', 16)
    """
    return replace(tile, format="bf16", scale="none", accumulator={"bins": 3, "bin_bits": 16})


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of training in NVFP4.

    A linear layer is a matrix product without a batch. Convolutions have neither 16 x 16 blocks nor a transform.

    Parameters
    ----------
    square_blocks : bool
        Whether 16 x 16 weights of a linear layer share a scale. Both passes then have the same quantised weights.
    hadamard : bool
        Whether both operands of a linear layer's weight gradient are transformed before they are quantised. The
        transform makes zeros nonzero, so the tile cannot skip them.
    bf16_layers : tuple of str
        Patterns (`fnmatch`) of layers' names. The three products of these layers run in bf16, on a tile of the same
        size; on a core in its operand format, such as fp16. The default is attention's products. The paper also runs
        the output projection and about 15% of the linear layers in bf16, most of them the last ones.
    seed : int
        Seed of the transform's signs, which are the same for all layers and steps.

    Raises
    ------
    TypeError, ValueError
        If a field is invalid.

    Source: arXiv:2509.25149, section 4.

    Examples
    --------
    >>> recipe = Recipe(bf16_layers=("*/bmm*", "head"))
    >>> [recipe.runs_in_bf16(layer) for layer in ("blocks.0/bmm0", "blocks.0.up", "head")]
    [True, False, True]
    """

    square_blocks: bool = True
    hadamard: bool = True
    bf16_layers: tuple[str, ...] = ATTENTION
    seed: int = 0

    def __post_init__(self) -> None:
        require_bool("square_blocks", self.square_blocks)
        require_bool("hadamard", self.hadamard)
        require_int("seed", self.seed, 0, MAX_SEED)
        layers = self.bf16_layers
        if not isinstance(layers, tuple) or not all(isinstance(each, str) and each for each in layers):
            raise TypeError(f"bf16_layers must be a tuple of patterns of layers' names, not {layers!r}")

    def runs_in_bf16(self, layer: str) -> bool:
        """Return whether the products of a layer run in bf16, or on a core in its operand format."""
        return any(fnmatchcase(layer, pattern) for pattern in self.bf16_layers)

    def apply(
        self, execution: Execution, tensors: dict[str, Operand], layer: str
    ) -> tuple[Execution, dict[str, Operand]]:
        """Return an operation and its operands as the recipe changes them.

        Parameters
        ----------
        execution : Execution
            The operation on the device.
        tensors : dict of str to Operand
            Both operands, in the geometry's shapes.
        layer : str
            Name of the layer.
        """
        geometry = execution.geometry
        if isinstance(execution.config, CoreConfig):
            # With a recipe, only quantised gradients are rounded stochastically.
            if self.runs_in_bf16(layer) or any(each.kind != FLOAT32 for each in tensors.values()):
                return replace(execution, seed=None), tensors
            execution = replace(execution, nvfp4=True)
        elif self.runs_in_bf16(layer):
            tile = bf16_tile(execution.tile)
            return replace(execution, config=tile, backend=Emulator(tile), seed=None), tensors
        if not isinstance(geometry, MatrixProduct) or geometry.batch > 1:
            return execution, tensors
        if execution.operation != "AxG":
            return replace(execution, weight_block_height=BLOCK if self.square_blocks else 1), tensors
        if not self.hadamard or any(each.kind != FLOAT32 for each in tensors.values()):
            return execution, tensors
        matrix = hadamard_matrix(self.seed)
        transformed = {}
        for name, each in tensors.items():
            bits = hadamard_transform(each.array, matrix).view(np.uint32)
            transformed[name] = Operand(name, convert_like(each.tensor, bits, FLOAT32))
        samples = -(-geometry.samples // BLOCK) * BLOCK
        return replace(execution, geometry=replace(geometry, samples=samples)), transformed


def default_rounding(recipe: Recipe | None) -> str:
    """Return a device's default rounding: "nearest", or "stochastic" with a recipe."""
    return "nearest" if recipe is None else "stochastic"


def checked_recipe(config: CoreConfig | TileConfig, recipe: Recipe | None) -> Recipe | None:
    """Check a device's recipe, and return it.

    Raises
    ------
    TypeError, ValueError
        If `recipe` is not a recipe, or the device has neither the scales of NVFP4 nor loads of NVFP4 tensors.
    """
    if recipe is None:
        return None
    if not isinstance(recipe, Recipe):
        raise TypeError(f"recipe must be a Recipe or None, not {recipe!r}")
    has_nvfp4 = config.nvfp4 if isinstance(config, CoreConfig) else config.scale == "e4m3"
    if not has_nvfp4:
        wrong = "core with core.nvfp4 = false"
        if isinstance(config, TileConfig):
            wrong = f'tile with tile.scale = "{config.scale}"'
        raise ValueError(
            f"recipe must be left out for a {wrong}: it is for NVFP4, that is, a core with core.nvfp4 = true or a tile "
            'with tile.scale = "e4m3"'
        )
    return recipe
