"""What stands between the convolutions of a network: BiasAdd and Relu, with their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gradops.errors import InvalidArgumentError
from gradops.graph._basic_ops._arithmetic import accumulator
from gradops.graph._basic_ops._tensors import same_shape
from gradops.graph._basic_ops._types import NUMBERS, REALS
from gradops.ops._expressions import GRAD, SAME, Call
from gradops.ops._inference import Inference, Shape, merge_shapes, merge_sizes, with_rank, with_rank_at_least
from gradops.ops._operator import Attr, Input, Operator

__all__ = ["OPERATORS"]

_Array = npt.NDArray[Any]


def _channel_axis(data_format: str) -> int:
    return 1 if data_format == "NCHW" else -1


def _bias_add_shape(node: Inference) -> Sequence[Shape]:
    axis = _channel_axis(node.attrs["data_format"])
    value = with_rank_at_least(node.op, "value", node.shapes[0], 2)
    (channels,) = with_rank(node.op, "bias", node.shapes[1], 1)
    if value is None:
        return (None,)
    sizes = list(value)
    sizes[axis] = merge_sizes(node.op, "the channels of value and bias", sizes[axis], channels)
    return (tuple(sizes),)


def _bias_add(value: _Array, bias: _Array, *, data_format: str) -> _Array:
    axis = _channel_axis(data_format)
    if value.ndim < 2 or bias.ndim != 1 or value.shape[axis] != bias.size:
        raise InvalidArgumentError(
            f"Must provide as many biases as the channel dimension of the input tensor: {bias.shape} vs. {value.shape}"
        )
    return value + (bias.reshape(-1, *(1,) * (value.ndim - 2)) if axis == 1 else bias)


def _bias_add_grad(out_backprop: _Array, *, data_format: str) -> _Array:
    if out_backprop.ndim < 2:
        raise InvalidArgumentError(f"Input tensor must be at least 2D: {out_backprop.shape}")
    kept = _channel_axis(data_format) % out_backprop.ndim
    axes = tuple(axis for axis in range(out_backprop.ndim) if axis != kept)
    total = np.asarray(np.sum(out_backprop, axes, accumulator(out_backprop.dtype)))
    return total.astype(out_backprop.dtype, copy=False)


def _bias_add_grad_shape(node: Inference) -> Sequence[Shape]:
    shape = with_rank_at_least(node.op, "out_backprop", node.shapes[0], 2)
    return ((None if shape is None else shape[_channel_axis(node.attrs["data_format"])],),)


def _relu(features: _Array) -> _Array:
    return np.asarray(np.maximum(features, features.dtype.type(0)))


def _relu_grad(gradients: _Array, features: _Array) -> _Array:
    if gradients.shape != features.shape:
        raise InvalidArgumentError(f"Inputs to operation ReluGrad differ in shape: {gradients.shape}, {features.shape}")
    return np.where(features > 0, gradients, gradients.dtype.type(0))


_NUMBER = Attr("T", "type", allowed=NUMBERS)
_DATA_FORMAT = Attr("data_format", "string", "NHWC", allowed=("NHWC", "NCHW"))

OPERATORS = (
    Operator(
        name="BiasAdd",
        function="bias_add",
        inputs=(Input("value", "T"), Input("bias", "T")),
        attrs=(_NUMBER, _DATA_FORMAT),
        outputs=(Input("output", "T"),),
        compute=_bias_add,
        infer=_bias_add_shape,
        vjps={"bias": Call("BiasAddGrad", (GRAD,), SAME), "value": Call("Identity", (GRAD,))},
    ),
    Operator(
        name="BiasAddGrad",
        function="bias_add_grad",
        inputs=(Input("out_backprop", "T"),),
        attrs=(_NUMBER, _DATA_FORMAT),
        outputs=(Input("output", "T"),),
        compute=_bias_add_grad,
        infer=_bias_add_grad_shape,
        vjps={"out_backprop": Call("BiasAdd", (Call("ZerosLike", ("out_backprop",)), GRAD), SAME)},
    ),
    Operator(
        name="Relu",
        function="relu",
        inputs=(Input("features", "T"),),
        attrs=(Attr("T", "type", allowed=(*REALS, "qint8")),),
        outputs=(Input("activations", "T"),),
        compute=_relu,
        infer=same_shape,
        vjps={"features": Call("ReluGrad", (GRAD, "features"))},
    ),
    Operator(
        name="ReluGrad",
        function="relu_grad",
        inputs=(Input("gradients", "T"), Input("features", "T")),
        attrs=(Attr("T", "type", allowed=REALS),),
        outputs=(Input("backprops", "T"),),
        compute=_relu_grad,
        infer=lambda node: (merge_shapes(node.op, "gradients and features", *node.shapes),),
        vjps={"gradients": Call("ReluGrad", (GRAD, "features"))},
    ),
)
