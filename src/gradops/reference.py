"""The operators once more, slowly, from their definitions: the specification as code.

For authors of kernels and compilers who need an oracle. Each function takes the arguments of the
operator of the same name, NumPy arrays, and returns what exact arithmetic on the same inputs would
give as far as float64 carries: sums and products are float64 where the operator is floating-point,
and int32 wraps where it is not. Nothing is validated beyond what the arithmetic needs. What is part
of an operator's *definition* is not idealised: sample coordinates are float32, rounded after every
operation in TensorFlow's order, since they decide which pixel a gradient goes to.

Padding is the library's own rule, `gradops.geometry.place_windows`.

>>> import numpy as np
>>> from gradops import reference
>>> image = np.arange(9.0).reshape(1, 3, 3, 1)
>>> reference.crop_and_resize(image, [[0, 0, 1, 1]], [0], [2, 2])[0, :, :, 0]
array([[0., 2.],
       [6., 8.]])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gradops.geometry import LAYOUTS, place_windows

__all__ = [
    "conv2d",
    "conv2d_backprop_filter",
    "conv2d_backprop_input",
    "crop_and_resize",
    "crop_and_resize_grad_boxes",
    "crop_and_resize_grad_image",
    "sample_positions",
]

_Array = npt.NDArray[Any]


def conv2d(
    input: npt.ArrayLike,
    filter: npt.ArrayLike,
    strides: Sequence[int],
    padding: str,
    use_cudnn_on_gpu: bool = True,  # noqa: ARG001
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
) -> _Array:
    """Convolve `input` with `filter`; see `gradops.conv2d`. Returns float64, or int32 for int32."""
    image, weights = _nhwc(_exact(input), data_format), _exact(filter)
    taps = _Taps(image.shape[1:3], weights.shape, strides, padding, explicit_paddings, data_format, dilations)
    result = np.zeros((image.shape[0], *taps.out_sizes, weights.shape[3]), weights.dtype)
    for a, g, rows, columns, out_rows, out_columns in taps:
        window = image[:, rows[:, None], columns]
        result[:, out_rows[:, None], out_columns] += _grouped(window, weights[a, g])
    return _from_nhwc(result, data_format)


def conv2d_backprop_input(
    input_sizes: Sequence[int],
    filter: npt.ArrayLike,
    out_backprop: npt.ArrayLike,
    strides: Sequence[int],
    padding: str,
    use_cudnn_on_gpu: bool = True,  # noqa: ARG001
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
) -> _Array:
    """Scatter `out_backprop` back through `filter`; see `gradops.conv2d_backprop_input`.

    Returns float64, or int32 for int32.
    """
    grad, weights = _nhwc(_exact(out_backprop), data_format), _exact(filter)
    layout, sizes = LAYOUTS[data_format], list(map(int, input_sizes))
    if len(sizes) == 2:
        in_height, in_width, in_channels = *sizes, weights.shape[2]
    else:
        in_height, in_width, in_channels = (sizes[i] for i in (layout.height, layout.width, layout.channels))
    taps = _Taps((in_height, in_width), weights.shape, strides, padding, explicit_paddings, data_format, dilations)
    result = np.zeros((grad.shape[0], in_height, in_width, in_channels), weights.dtype)
    for a, g, rows, columns, out_rows, out_columns in taps:
        window = grad[:, out_rows[:, None], out_columns]
        result[:, rows[:, None], columns] += _grouped_transposed(window, weights[a, g], in_channels)
    return _from_nhwc(result, data_format)


def conv2d_backprop_filter(
    input: npt.ArrayLike,
    filter_sizes: Sequence[int],
    out_backprop: npt.ArrayLike,
    strides: Sequence[int],
    padding: str,
    use_cudnn_on_gpu: bool = True,  # noqa: ARG001
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
) -> npt.NDArray[np.float64]:
    """Correlate `input` with `out_backprop`; see `gradops.conv2d_backprop_filter`."""
    image, grad = (_nhwc(np.asarray(x).astype(np.float64), data_format) for x in (input, out_backprop))
    result = np.zeros(tuple(map(int, filter_sizes)))
    taps = _Taps(image.shape[1:3], result.shape, strides, padding, explicit_paddings, data_format, dilations)
    for a, g, rows, columns, out_rows, out_columns in taps:
        window, target = image[:, rows[:, None], columns], grad[:, out_rows[:, None], out_columns]
        result[a, g] = _grouped_product(window, target, result.shape[2])
    return result


def crop_and_resize(
    image: npt.ArrayLike,
    boxes: npt.ArrayLike,
    box_ind: npt.ArrayLike,
    crop_size: Sequence[int],
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> npt.NDArray[np.float64]:
    """Crop and resample `image`; see `gradops.crop_and_resize`."""
    pixels = np.asarray(image).astype(np.float32).astype(np.float64)
    corners = np.asarray(boxes, np.float32).reshape(-1, 4)
    crops = np.full((len(corners), *crop_size, pixels.shape[3]), np.float32(extrapolation_value), np.float64)
    for b, ((y1, x1, y2, x2), index) in enumerate(zip(corners, np.asarray(box_ind).ravel(), strict=True)):
        for i, y in enumerate(sample_positions(y1, y2, crop_size[0], pixels.shape[1])):
            for j, x in enumerate(sample_positions(x1, x2, crop_size[1], pixels.shape[2])):
                if not (np.isnan(y) or np.isnan(x)):
                    crops[b, i, j] = _sample(pixels[index], float(y), float(x), method)
    return crops


def crop_and_resize_grad_image(
    grads: npt.ArrayLike,
    boxes: npt.ArrayLike,
    box_ind: npt.ArrayLike,
    image_size: Sequence[int],
    T: npt.DTypeLike = np.float64,  # noqa: ARG001
    method: str = "bilinear",
) -> npt.NDArray[np.float64]:
    """Add `grads` back to where the crop read them; see `gradops.crop_and_resize_grad_image`."""
    gradients = np.asarray(grads, np.float32).astype(np.float64)
    corners = np.asarray(boxes, np.float32).reshape(-1, 4)
    image = np.zeros(tuple(map(int, image_size)))
    for b, ((y1, x1, y2, x2), index) in enumerate(zip(corners, np.asarray(box_ind).ravel(), strict=True)):
        for i, y in enumerate(sample_positions(y1, y2, gradients.shape[1], image.shape[1])):
            for j, x in enumerate(sample_positions(x1, x2, gradients.shape[2], image.shape[2])):
                if not (np.isnan(y) or np.isnan(x)):
                    _scatter(image[index], float(y), float(x), gradients[b, i, j], method)
    return image


def crop_and_resize_grad_boxes(
    grads: npt.ArrayLike,
    image: npt.ArrayLike,
    boxes: npt.ArrayLike,
    box_ind: npt.ArrayLike,
    method: str = "bilinear",  # noqa: ARG001
) -> npt.NDArray[np.float64]:
    """Differentiate every sample with respect to its box; see `gradops.crop_and_resize_grad_boxes`."""
    gradients = np.asarray(grads, np.float32).astype(np.float64)
    pixels = np.asarray(image).astype(np.float32).astype(np.float64)
    corners = np.asarray(boxes, np.float32).reshape(-1, 4)
    _, height, width, _ = pixels.shape
    result = np.zeros((len(corners), 4))
    for b, ((y1, x1, y2, x2), index) in enumerate(zip(corners, np.asarray(box_ind).ravel(), strict=True)):
        rows = _box_derivatives(y1, y2, gradients.shape[1], height)
        columns = _box_derivatives(x1, x2, gradients.shape[2], width)
        for i, (y, y_by_y1, y_by_y2) in enumerate(rows):
            for j, (x, x_by_x1, x_by_x2) in enumerate(columns):
                if not (np.isnan(y) or np.isnan(x)):
                    by_y, by_x = _slopes(pixels[index], y, x) @ gradients[b, i, j]
                    result[b] += (by_y * y_by_y1, by_x * x_by_x1, by_y * y_by_y2, by_x * x_by_x2)
    return result


def sample_positions(low: float, high: float, count: int, size: int) -> npt.NDArray[np.float32]:
    """Return where the samples of a box lie along one axis of an image, in pixels.

    Parameters
    ----------
    low, high : float32
        The box's two coordinates along the axis, as fractions of `size` - 1.
    count : int
        Samples along the axis, the crop's height or width.
    size : int
        The image's height or width.

    Returns
    -------
    (count,) float32
        Every operation rounded once, subnormals flushed to zero; NaN for a sample outside
        [0, `size` - 1].
    """
    f = np.float32
    low, high, last = _flush(f(low)), _flush(f(high)), f(size - 1)
    with np.errstate(over="ignore", invalid="ignore"):
        if count > 1:
            scale = _flush(_flush(_flush(high - low) * last) / f(count - 1))
            steps = np.arange(count).astype(f)
            positions = _flush(_flush(low * last) + _flush(steps * scale))
        else:
            positions = np.array([f(0.5 * float(_flush(low + high)) * float(size - 1))])
        inside = (positions >= 0) & (positions.astype(np.float64) <= size - 1)
    return np.where(inside, positions, f(np.nan))


# --- convolutions ---


class _Taps:
    """The taps of a convolution, each with the positions it joins.

    Iterating gives ``(a, g, rows, columns, out_rows, out_columns)``: filter element (a, g) joins
    input pixel (rows[i], columns[j]) with output pixel (out_rows[i], out_columns[j]).
    """

    def __init__(
        self,
        in_sizes: Sequence[int],
        filter_shape: Sequence[int],
        strides: Sequence[int],
        padding: str,
        explicit_paddings: Sequence[int],
        data_format: str,
        dilations: Sequence[int],
    ) -> None:
        layout = LAYOUTS[data_format]
        self._axes = []
        for i, axis in enumerate((layout.height, layout.width)):
            explicit = tuple(explicit_paddings[2 * axis : 2 * axis + 2]) or (0, 0)
            window = place_windows(
                padding, in_sizes[i], filter_shape[i], strides[axis], dilations[axis], (explicit[0], explicit[1])
            )
            self._axes.append((in_sizes[i], filter_shape[i], strides[axis], dilations[axis], window))
        self.out_sizes = tuple(axis[-1].out_size for axis in self._axes)

    def __iter__(self) -> Iterator[tuple[int, int, _Array, _Array, _Array, _Array]]:
        for a in range(self._axes[0][1]):
            rows, out_rows = self._positions(0, a)
            for g in range(self._axes[1][1]):
                columns, out_columns = self._positions(1, g)
                yield a, g, rows, columns, out_rows, out_columns

    def _positions(self, axis: int, tap: int) -> tuple[_Array, _Array]:
        in_size, _, stride, dilation, window = self._axes[axis]
        out = np.arange(window.out_size)
        position = out * stride + tap * dilation - window.pad_before
        inside = (position >= 0) & (position < in_size)
        return position[inside], out[inside]


def _grouped(window: _Array, tap: _Array) -> _Array:
    """(batch, rows, columns, in_channels) times a tap (in_channels / groups, out_channels)."""
    depth, out_channels = tap.shape
    groups = window.shape[3] // depth
    split = window.reshape(*window.shape[:3], groups, depth)
    result: _Array = np.einsum("bijgc,cgk->bijgk", split, tap.reshape(depth, groups, -1))
    return result.reshape(*window.shape[:3], out_channels)


def _grouped_transposed(window: _Array, tap: _Array, in_channels: int) -> _Array:
    """(batch, rows, columns, out_channels) times the transpose of a tap."""
    depth, out_channels = tap.shape
    groups = in_channels // depth
    split = window.reshape(*window.shape[:3], groups, out_channels // groups)
    result: _Array = np.einsum("bijgk,cgk->bijgc", split, tap.reshape(depth, groups, -1))
    return result.reshape(*window.shape[:3], in_channels)


def _grouped_product(window: _Array, target: _Array, depth: int) -> _Array:
    """One tap of a filter (in_channels / groups, out_channels): products summed over batch, rows and columns."""
    groups = window.shape[3] // depth
    split = window.reshape(*window.shape[:3], groups, depth)
    targets = target.reshape(*target.shape[:3], groups, target.shape[3] // groups)
    result: _Array = np.einsum("bijgc,bijgk->cgk", split, targets)
    return result.reshape(depth, target.shape[3])


def _exact(array: npt.ArrayLike) -> _Array:
    array = np.asarray(array)
    return array if array.dtype == np.int32 else array.astype(np.float64)


def _nhwc(array: _Array, data_format: str) -> _Array:
    return array.transpose(0, 2, 3, 1) if data_format == "NCHW" else array


def _from_nhwc(array: _Array, data_format: str) -> _Array:
    return array.transpose(0, 3, 1, 2) if data_format == "NCHW" else array


# --- crops ---


def _corners(y: float, x: float) -> Iterator[tuple[int, int, float]]:
    """The four pixels around a position and their weights, two or all of them the same on a grid line."""
    top, left = int(np.floor(y)), int(np.floor(x))
    for row, row_weight in ((top, 1 - (y - top)), (int(np.ceil(y)), y - top)):
        for column, column_weight in ((left, 1 - (x - left)), (int(np.ceil(x)), x - left)):
            yield row, column, row_weight * column_weight


def _nearest(y: float, x: float) -> tuple[int, int]:
    return int(np.floor(y + 0.5)), int(np.floor(x + 0.5))  # halves up, in float64: exact


def _sample(image: _Array, y: float, x: float, method: str) -> _Array:
    if method == "nearest":
        return np.asarray(image[_nearest(y, x)])
    return np.asarray(sum(weight * image[row, column] for row, column, weight in _corners(y, x)))


def _scatter(image: _Array, y: float, x: float, gradient: _Array, method: str) -> None:
    if method == "nearest":
        image[_nearest(y, x)] += gradient
    else:
        for row, column, weight in _corners(y, x):
            image[row, column] += weight * gradient


def _box_derivatives(low: float, high: float, count: int, size: int) -> list[tuple[float, float, float]]:
    """Each sample's position along an axis, NaN outside, and its derivatives with respect to `low` and `high`.

    TensorFlow evaluates the position here in another order than in the crop itself, which now and
    then decides otherwise whether a sample is inside.
    """
    f = np.float32
    low, high, last = _flush(f(low)), _flush(f(high)), f(size - 1)
    if count == 1:
        (position,) = sample_positions(low, high, 1, size)
        return [(float(position), 0.5 * (size - 1), 0.5 * (size - 1))]
    ratio = f(last / f(count - 1))
    with np.errstate(over="ignore", invalid="ignore"):
        scale = _flush(_flush(high - low) * ratio)
        positions = _flush(_flush(low * last) + _flush(np.arange(count).astype(f) * scale))
        inside = (positions >= 0) & (positions.astype(np.float64) <= size - 1)
    shares = [float(f(f(i) * ratio)) for i in range(count)]
    return [
        (float(position) if is_inside else np.nan, float(last) - share, share)
        for position, is_inside, share in zip(positions, inside, shares, strict=True)
    ]


def _slopes(image: _Array, y: float, x: float) -> _Array:
    """The derivatives of a bilinear sample by y and by x, each (depth,); 0 along an axis on whose grid it lies."""
    top, left, bottom, right = int(np.floor(y)), int(np.floor(x)), int(np.ceil(y)), int(np.ceil(x))
    fy, fx = y - top, x - left
    by_y = (1 - fx) * (image[bottom, left] - image[top, left]) + fx * (image[bottom, right] - image[top, right])
    by_x = (1 - fy) * (image[top, right] - image[top, left]) + fy * (image[bottom, right] - image[bottom, left])
    return np.stack([by_y, by_x])


def _flush(value: Any) -> Any:
    """Flush float32 subnormals to zero, as TensorFlow's kernel threads do."""
    return np.where(np.abs(value) < np.finfo(np.float32).tiny, np.float32(0), value).astype(np.float32)[()]
