"""What the crops share: the checks of boxes and their indices.

`op` is the eager function's name, which every message begins with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gradops.errors import InvalidArgumentError, OutOfRangeError

__all__ = [
    "GRAD_IMAGE_TYPES",
    "check_box_columns",
    "check_box_ind_length",
    "check_box_ind_rank",
    "check_box_ind_values",
    "check_boxes_finite",
    "check_boxes_of_grads",
    "check_boxes_rank",
    "check_element_count",
    "check_grads",
    "check_image_size_positive",
    "no_boxes",
]

#: The images that have a gradient.
GRAD_IMAGE_TYPES = ("float", "half", "double")


def check_boxes_rank(op: str, boxes: npt.NDArray[Any]) -> None:
    if boxes.ndim != 2:
        raise InvalidArgumentError(
            f"{op}: boxes must be 2-D, (num_boxes, 4), got rank {boxes.ndim}: shape {boxes.shape}"
        )


def check_box_columns(op: str, boxes: npt.NDArray[Any]) -> None:
    if boxes.shape[1] != 4:
        raise InvalidArgumentError(
            f"{op}: boxes must have 4 columns (y1, x1, y2, x2), got {boxes.shape[1]}: shape {boxes.shape}"
        )


def check_box_ind_rank(op: str, box_ind: npt.NDArray[Any]) -> None:
    if box_ind.ndim != 1:
        raise InvalidArgumentError(
            f"{op}: box_ind must be 1-D, (num_boxes,), got rank {box_ind.ndim}: shape {box_ind.shape}"
        )


def check_box_ind_length(op: str, box_ind: npt.NDArray[Any], boxes: npt.NDArray[Any]) -> None:
    if box_ind.shape[0] != boxes.shape[0]:
        raise InvalidArgumentError(
            f"{op}: box_ind has incompatible shape {box_ind.shape}: boxes {boxes.shape} holds {boxes.shape[0]} "
            "boxes. Give one index for each box."
        )


def no_boxes(boxes: npt.NDArray[Any], box_ind: npt.NDArray[Any]) -> bool:
    """Whether TensorFlow takes the two for an empty list of boxes, whatever their other sizes."""
    return boxes.size == 0 and box_ind.size == 0


def check_grads(op: str, grads: npt.NDArray[Any]) -> None:
    """Gradients of crops have four dimensions and a crop with pixels, even where there are no boxes."""
    if grads.ndim != 4:
        raise InvalidArgumentError(
            f"{op}: grads must be 4-D, (num_boxes, crop_height, crop_width, depth), "
            f"got rank {grads.ndim}: shape {grads.shape}"
        )
    if grads.shape[1] == 0 or grads.shape[2] == 0:
        raise InvalidArgumentError(f"{op}: grads dimensions must be positive, got a crop of shape {grads.shape}")


def check_boxes_of_grads(op: str, grads: npt.NDArray[Any], boxes: npt.NDArray[Any], box_ind: npt.NDArray[Any]) -> None:
    """The gradients' order of checks: boxes, indices, and that `grads` has a crop for each box."""
    check_boxes_rank(op, boxes)
    if no_boxes(boxes, box_ind):
        check_box_ind_rank(op, box_ind)
        num_boxes = 0
    else:
        check_box_columns(op, boxes)
        check_box_ind_rank(op, box_ind)
        check_box_ind_length(op, box_ind, boxes)
        num_boxes = boxes.shape[0]
    if grads.shape[0] != num_boxes:
        raise InvalidArgumentError(
            f"{op}: boxes and grads have incompatible shapes: boxes {boxes.shape} holds {num_boxes} boxes, "
            f"grads {grads.shape} holds {grads.shape[0]}"
        )


def check_image_size_positive(op: str, height: int, width: int, given: object) -> None:
    if height <= 0 or width <= 0:
        raise InvalidArgumentError(
            f"{op}: image dimensions must be positive, got height {height} and width {width}: {given}"
        )


def check_element_count(op: str, name: str, shape: tuple[int, ...]) -> None:
    """Multiply as TensorFlow does, size by size: a zero at the end does not save an overflow."""
    count = 1
    for size in shape:
        count *= size
        if count > 2**63 - 1:
            raise InvalidArgumentError(f"{op}: {name} {shape} has more than 2**63 - 1 elements")


def check_box_ind_values(op: str, box_ind: npt.NDArray[Any], batch: int) -> None:
    """Every index is in [0, batch)."""
    outside = (box_ind < 0) | (box_ind >= batch)
    if outside.any():
        position = int(outside.argmax())
        raise OutOfRangeError(
            f"{op}: box_ind has values outside [0, batch): box_ind[{position}] is {box_ind[position]}, "
            f"but the batch has {batch} images"
        )


def check_boxes_finite(op: str, boxes: npt.NDArray[Any]) -> None:
    """Every coordinate is finite. TensorFlow's gradients do not check this and crash on NaN."""
    finite = np.isfinite(boxes)
    if not finite.all():
        row, column = map(int, np.argwhere(~finite)[0])
        raise InvalidArgumentError(
            f"{op}: boxes contains at least one element that is not finite: boxes[{row}, {column}] is "
            f"{boxes[row, column]}. Remove the box, or give it finite coordinates (outside 0..1 is allowed)."
        )
