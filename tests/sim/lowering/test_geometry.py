"""Test shapes, counts, errors and JSON of geometries."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from tensordash_sim.lowering import Convolution, MatrixProduct, Operation, geometry_from_json

from .geometries import convolution

LAYER: dict[str, Any] = {
    "batch": 2,
    "in_channels": 4,
    "out_channels": 6,
    "size": (7, 9),
    "kernel": (3, 2),
    "stride": (2, 1),
    "padding": (1, 0),
    "dilation": (1, 3),
    "groups": 2,
}


class TestConvolution:
    def test_shapes(self):
        layer = Convolution(**LAYER)
        assert layer.shapes == {"A": (2, 4, 7, 9), "W": (6, 2, 3, 2), "G": (2, 6, 4, 6)}
        assert layer.out_size == (4, 6)
        assert layer.macs == 2 * 2 * 6 * (3 * 4 - 2) * (2 * 6)

    def test_padding_at_the_end(self):
        layer = Convolution(**(LAYER | {"end_padding": (-3, -1)}))
        assert layer.shapes == {"A": (2, 4, 7, 9), "W": (6, 2, 3, 2), "G": (2, 6, 2, 5)}
        assert layer.macs == 2 * 2 * 6 * (3 * 2 - 1) * (2 * 5)
        assert geometry_from_json(json.loads(json.dumps(layer.to_json()))) == layer
        usual = Convolution(**LAYER)
        assert Convolution(**(LAYER | {"end_padding": (1, 0)})) == usual
        assert "end_padding" not in usual.to_json()

    def test_one_dimension(self):
        layer = convolution(channels=(3, 5), size=(8,), kernel=(3,), padding=(1,))
        assert layer.shapes == {"A": (1, 3, 8), "W": (5, 3, 3), "G": (1, 5, 8)}
        assert layer.macs == 3 * 5 * (3 * 8 - 2)

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({"batch": 0}, ValueError, "batch must be an integer of at least 1, not 0"),
            ({"in_channels": 4.0}, TypeError, "in_channels must be an integer of at least 1, not 4.0"),
            ({"out_channels": True}, TypeError, "out_channels must be an integer of at least 1, not True"),
            ({"groups": 3}, ValueError, "groups must divide in_channels = 4, not 3"),
            ({"groups": 4}, ValueError, "groups must divide out_channels = 6, not 4"),
            ({"size": [7, 9]}, TypeError, r"size must be a tuple of 1 or 2 integers, not \[7, 9\]"),
            ({"size": (1, 7, 9)}, ValueError, r"size must be a tuple of 1 or 2 integers, not \(1, 7, 9\)"),
            ({"kernel": (3,)}, ValueError, r"kernel must have an entry .* size = \(7, 9\), not \(3,\)"),
            ({"kernel": (3, 0)}, ValueError, r"kernel\[1\] must be an integer of at least 1, not 0"),
            ({"stride": (0, 1)}, ValueError, r"stride\[0\] must be an integer of at least 1, not 0"),
            ({"padding": (-1, 0)}, ValueError, r"padding\[0\] must be an integer of at least 0, not -1"),
            ({"dilation": ("1", 1)}, TypeError, r"dilation\[0\] must be an integer of at least 1, not '1'"),
            ({"kernel": (3, 5)}, ValueError, r"size \+ padding at both ends must be .* reach of 13, not 9"),
            ({"end_padding": (2, 0)}, ValueError, r"end_padding\[0\] must be an integer from -7 to 1, not 2"),
            ({"end_padding": (0, -10)}, ValueError, r"end_padding\[1\] must be an integer .*, not -10"),
            ({"end_padding": (-5, 0), "padding": (0, 0)}, ValueError, r"padding at both ends must be .* 3, not 2"),
        ],
    )
    def test_errors(self, change, error, message):
        with pytest.raises(error, match=message):
            Convolution(**(LAYER | change))


class TestMatrixProduct:
    def test_shapes(self):
        layer = MatrixProduct(batch=3, samples=4, in_features=5, out_features=6)
        assert layer.shapes == {"A": (3, 4, 5), "W": (3, 6, 5), "G": (3, 4, 6)}
        assert layer.macs == 3 * 4 * 5 * 6

    def test_errors(self):
        with pytest.raises(ValueError, match="samples must be an integer of at least 1, not 0"):
            MatrixProduct(batch=3, samples=0, in_features=5, out_features=6)


class TestJson:
    @pytest.mark.parametrize(
        "layer",
        [Convolution(**LAYER), MatrixProduct(batch=3, samples=4, in_features=5, out_features=6)],
        ids=lambda layer: type(layer).__name__,
    )
    def test_json_round_trip(self, layer):
        assert geometry_from_json(json.loads(json.dumps(layer.to_json()))) == layer

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({"kind": "pooling"}, ValueError, "kind must be one of convolution, matrix_product, not 'pooling'"),
            ({"kind": 1}, TypeError, "kind must be one of convolution, matrix_product, not 1"),
            ({"bias": 1}, ValueError, "a convolution must have the keys kind, .*, groups; unknown: bias"),
            ({"size": [7, "9"]}, TypeError, r"size\[1\] must be an integer"),
            ({"size": 7}, TypeError, "size must be a tuple of 1 or 2 integers, not 7"),
        ],
    )
    def test_errors(self, change, error, message):
        with pytest.raises(error, match=message):
            geometry_from_json(Convolution(**LAYER).to_json() | change)

    def test_missing_keys(self):
        with pytest.raises(ValueError, match="a convolution must have the keys .*; missing: groups"):
            geometry_from_json(
                {name: value for name, value in Convolution(**LAYER).to_json().items() if name != "groups"}
            )
        with pytest.raises(TypeError, match="kind must be one of convolution, matrix_product, not None"):
            geometry_from_json(asdict(Convolution(**LAYER)))
        with pytest.raises(TypeError, match=r"a geometry must be a JSON object, not \[1\]"):
            geometry_from_json([1])


def test_operations():
    assert [f"{operation}" for operation in Operation] == ["AxW", "WxG", "AxG"]
    assert Operation("WxG") is Operation.INPUT_GRADIENT
