"""Compare integer results of single sums and scaled programs with the golden core."""

import numpy as np
import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FORMATS, IntegerFormat
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.compiler.images import TensorImage
from tensordash_sim.compiler.pipeline import compile_problem
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.rounding import scaled, stochastic, toward_zero
from tensordash_sim.emulator import RandomBits, contract
from tensordash_sim.emulator.integers import integer_result_bits
from tensordash_sim.golden.core import results
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory

from .test_contraction import CASES, LAYERS, draw_operands, fused_integers

INT8 = load_any_preset("core-int8")
assert isinstance(INT8, CoreConfig)
FORMAT = FORMATS["int8"]
assert isinstance(FORMAT, IntegerFormat)
ENDS = [0, 1, -1, 127, 128, -128, -129, -(1 << 31), (1 << 31) - 1]


@pytest.mark.parametrize("mode", ["nearest", "toward_zero", "stochastic"])
def test_results(mode):
    rng = np.random.default_rng(5)
    for scale in (-128, *range(-50, 12), 127):
        sums = rng.integers(-(1 << 31), 1 << 31, 200) >> rng.integers(0, 32, 200)
        sums[: len(ENDS)] = ENDS
        ties = (2 * rng.integers(-200, 200, 40) + 1) << max(0, min(-scale - 1, 22))
        sums = np.concatenate([sums, ties]).astype(np.int32).view(np.uint32)
        # Half of the random bits are the least that round up, or one less than that.
        cut = max(0, min(-scale, 48))
        fractions = np.array([(abs(int(each)) % (1 << cut) << 16) >> cut for each in sums.view(np.int32)])
        random = rng.integers(0, 1 << 16, sums.shape)
        random[::2] = np.clip((1 << 16) - fractions - rng.integers(0, 2, sums.shape), 0, (1 << 16) - 1)[::2]
        random = random.astype(np.uint16)
        relu, is_stochastic, is_down = scale % 4 == 0, mode == "stochastic", mode == "toward_zero"
        found = integer_result_bits(
            sums, FORMAT, relu=relu, toward_zero=is_down, random=random if is_stochastic else None, scale=scale
        )
        fields = {"scale": scale, "relu": relu, "mask": 0, "fp32": 0, "toward_zero": is_down}
        expected = [
            results.integer_result_bits(
                int(bits), {**fields, "stochastic": is_stochastic}, FORMAT, masked=False, random=int(each)
            )
            for bits, each in zip(sums, random, strict=True)
        ]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("operation", "rows"), CASES)
@pytest.mark.parametrize("mode", ["nearest", "toward_zero", "stochastic"])
def test_scaled_programs(mode, operation, rows):
    layer = LAYERS["padding, odd sizes"]
    for seed in range(2):
        values = draw_operands(layer, operation, seed, 0, FORMAT) | fused_integers(
            layer, operation, seed, masked=bool(seed)
        )
        more = {name: values.get(name) for name in ("bias", "mask")}
        image = TensorImage(INT8, Memory(1 << 17), layer, operation, values, rows=rows)
        problem = Problem(
            layer=layer,
            operation=operation,
            rows=rows,
            relu=bool(seed),
            **{name: each is not None for name, each in more.items()},
        )
        descriptors = compile_problem(problem, INT8, image.tensors).descriptors
        random = None
        if mode == "stochastic":
            descriptors = stochastic(descriptors, seed)
            random = RandomBits(INT8, layer, operation, descriptors, image.tensors["result"]).of(seed)
        elif mode == "toward_zero":
            descriptors = toward_zero(descriptors)
        scale, is_down = -4 - seed, mode == "toward_zero"
        assert GoldenCore(INT8, image.memory).run(scaled(descriptors, scale)).error == ""
        found = contract(
            INT8,
            layer,
            operation,
            rows,
            values,
            relu=bool(seed),
            toward_zero=is_down,
            random=random,
            scale=scale,
            **more,
        )
        np.testing.assert_array_equal(found, image.result())
