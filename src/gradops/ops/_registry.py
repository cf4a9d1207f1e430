"""TensorFlow's operator names and their descriptions; read by every face of the library."""

from collections.abc import Mapping
from typing import Final

from gradops.ops import (
    conv2d,
    conv2d_backprop_filter,
    conv2d_backprop_input,
    crop_and_resize,
    crop_and_resize_grad_boxes,
    crop_and_resize_grad_image,
)
from gradops.ops._operator import Operator

__all__ = ["OPERATORS"]

OPERATORS: Final[Mapping[str, Operator]] = {
    module.OPERATOR.name: module.OPERATOR
    for module in (
        conv2d,
        conv2d_backprop_input,
        conv2d_backprop_filter,
        crop_and_resize,
        crop_and_resize_grad_image,
        crop_and_resize_grad_boxes,
    )
}
