"""TensorFlow's image-gradient operators, outside TensorFlow."""

from gradops import errors, reference
from gradops._runtime import (
    check_environment as _check_environment,
)
from gradops._runtime import (
    empty_cache,
    get_num_threads,
    instruction_set,
    set_num_threads,
)
from gradops._version import __version__
from gradops.ops.conv2d import conv2d
from gradops.ops.conv2d_backprop_input import conv2d_backprop_input
from gradops.ops.crop_and_resize import crop_and_resize
from gradops.ops.crop_and_resize_grad_image import crop_and_resize_grad_image

__all__ = [
    "__version__",
    "conv2d",
    "conv2d_backprop_input",
    "crop_and_resize",
    "crop_and_resize_grad_image",
    "empty_cache",
    "errors",
    "get_num_threads",
    "instruction_set",
    "reference",
    "set_num_threads",
]

_check_environment()
