"""Arrays of every kind and layout go in, and the same kind comes out."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import gradops
from gradops import arrays
from gradops.errors import InvalidArgumentError
from isolated import run
from strategies import Convolution, random_array

Array = npt.NDArray[Any]
ONES = [1, 1, 1, 1]
CASE = Convolution(2, (5, 6), 2, 2, 3, (3, 2), stride=(2, 1))
DTYPES = ["float32", "float64", "float16", "bfloat16", "int32"]


def gradient(weights: Any, grad: Any, **options: Any) -> Any:
    return gradops.conv2d_backprop_input(CASE.input_sizes, weights, grad, **CASE.attrs, **options)


def case_of(dtype: str) -> tuple[Array, Array, Array]:
    """Filter, out_backprop and the gradient, all plain arrays."""
    weights, grad = random_array(1, CASE.filter.shape, dtype), random_array(2, CASE.output_sizes, dtype)
    return weights, grad, gradient(weights, grad)


def same(result: Any, wanted: Array) -> None:
    assert type(result) is np.ndarray
    assert result.dtype == wanted.dtype
    assert result.tobytes() == wanted.tobytes()


# --- layouts ---


def misaligned(array: Array) -> Array:
    buffer = np.empty(array.nbytes + 1, np.uint8)
    moved: Array = buffer[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


def read_only(array: Array) -> Array:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def every_other(array: Array) -> Array:
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "Fortran order": np.asfortranarray,
    "negative strides": lambda array: array[::-1, ::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1, ::-1],
    "gaps": every_other,
    "permuted": lambda array: array.transpose(3, 0, 2, 1).copy().transpose(1, 3, 2, 0),
    "read-only": read_only,
    "misaligned": misaligned,
    "an offset into a larger array": lambda array: np.concatenate([array, array])[len(array) :],
    "a subclass": lambda array: array.view(type("Mine", (np.ndarray,), {})),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_arrays_memory_layout_changes_nothing(layout: str, dtype: str) -> None:
    weights, grad, wanted = case_of(dtype)
    arrange = LAYOUTS[layout]
    strange_weights, strange_grad = arrange(weights), arrange(grad)
    assert np.array_equal(strange_weights, weights)
    same(gradient(strange_weights, strange_grad), wanted)
    assert np.array_equal(strange_grad, grad)  # and nothing is written


@pytest.mark.parametrize("layout", LAYOUTS)
def test_kernels_are_given_aligned_contiguous_arrays(layout: str) -> None:
    """Reading others happens to work on some processors."""
    strange = LAYOUTS[layout](case_of("float32")[0])
    plain = arrays.contiguous("op", strange)
    assert plain.flags.aligned
    assert plain.flags.c_contiguous
    assert np.array_equal(plain, strange)


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "permuted"])
def test_the_layout_of_crops_boxes_and_indices_changes_nothing(layout: str) -> None:
    rng = np.random.default_rng(0)
    image, boxes = rng.random((2, 4, 5, 3)).astype(np.float32), rng.random((6, 4)).astype(np.float32)
    box_ind = np.array([0, 1, 1, 0, 1, 0], np.int32)
    grads = rng.random((6, 2, 3, 3)).astype(np.float32)
    arrange = LAYOUTS[layout]
    strange_boxes, strange_ind = (
        (boxes[::-1].copy()[::-1], box_ind[::-1].copy()[::-1])
        if layout == "negative strides"
        else (arrange(boxes), arrange(box_ind))
    )
    same(
        gradops.crop_and_resize(arrange(image), strange_boxes, strange_ind, [2, 3]),
        gradops.crop_and_resize(image, boxes, box_ind, [2, 3]),
    )
    same(
        gradops.crop_and_resize_grad_image(arrange(grads), strange_boxes, strange_ind, [2, 4, 5, 3], "float32"),
        gradops.crop_and_resize_grad_image(grads, boxes, box_ind, [2, 4, 5, 3], "float32"),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_broadcast_array_is_read_as_what_it_shows(dtype: str) -> None:
    weights, grad, _ = case_of(dtype)
    broadcast = np.broadcast_to(grad[:1, :1, :1], grad.shape)
    assert broadcast.strides[0] == 0
    same(gradient(weights, broadcast), gradient(weights, broadcast.copy()))


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4"])
def test_foreign_byte_order_is_converted(dtype: str) -> None:
    name = np.dtype(dtype).name
    weights, grad, wanted = case_of(name)
    foreign = [array.astype(np.dtype(dtype).newbyteorder("S")) for array in (weights, grad)]
    assert not foreign[0].dtype.isnative
    same(gradient(*foreign), wanted)
    assert gradient(*foreign).dtype.isnative
    sizes = np.array(CASE.input_sizes, np.dtype("i4").newbyteorder("S"))
    same(gradops.conv2d_backprop_input(sizes, weights, grad, **CASE.attrs), wanted)


def test_a_masked_array_is_refused_since_its_mask_would_be_lost() -> None:
    weights, grad, _ = case_of("float32")
    with pytest.raises(TypeError, match=r"out_backprop is a masked array.*out_backprop\.filled"):
        gradient(weights, np.ma.masked_array(grad, grad > 0))


def test_a_numpy_scalar_is_an_array_of_rank_0() -> None:
    with pytest.raises(InvalidArgumentError, match="filter must be 4-dimensional, got rank 0"):
        gradops.conv2d(np.ones((1, 1, 1, 1), np.float32), np.float32(1), ONES, "SAME")


def test_inputs_are_never_written() -> None:
    weights, grad, _ = case_of("float32")
    before = weights.copy(), grad.copy()
    gradient(weights, grad)
    assert np.array_equal(weights, before[0])
    assert np.array_equal(grad, before[1])


# --- lists and numbers, as TensorFlow converts them ---

NESTED = [[[[1.0], [2.0]], [[3.0], [4.0]]]]  # (1, 2, 2, 1)


def test_lists_of_floats_are_float32_and_of_integers_int32() -> None:
    assert gradops.conv2d(NESTED, [[[[2.0]]]], ONES, "VALID").dtype == np.float32
    result = gradops.conv2d([[[[1], [2]]]], [[[[3]]]], ONES, "VALID")
    assert result.dtype == np.int32
    assert result.ravel().tolist() == [3, 6]


def test_a_list_takes_the_element_type_of_an_array_beside_it() -> None:
    for dtype in (np.float64, np.float16, ml_dtypes.bfloat16, np.int32):
        result = gradops.conv2d([[[[1], [2]]]], np.ones((1, 1, 1, 1), dtype), ONES, "VALID")
        assert result.dtype == dtype
        assert result.ravel().tolist() == [1, 2]


def test_a_list_of_floats_does_not_become_integers() -> None:
    with pytest.raises(InvalidArgumentError, match="input must hold integers"):
        gradops.conv2d(NESTED, np.ones((1, 1, 1, 1), np.int32), ONES, "VALID")


def test_integers_in_a_list_that_int32_cannot_hold_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="input holds 2147483648, out of range for int32"):
        gradops.conv2d([[[[2**31]]]], [[[[1]]]], ONES, "VALID")


def test_lists_serve_as_boxes_and_indices() -> None:
    image = np.arange(9, dtype=np.float32).reshape(1, 3, 3, 1)
    for boxes, box_ind in (([[0, 0, 1, 1]], [0]), ([(0.0, 0, 1, 1)], (0,)), ([[0, 0, 1, 1]], range(1))):
        assert gradops.crop_and_resize(image, boxes, box_ind, (1, 1)).item() == 4


def test_an_empty_list_is_no_boxes() -> None:
    image = np.ones((1, 3, 3, 1), np.float32)
    assert gradops.crop_and_resize(image, np.zeros((0, 4), np.float32), [], [1, 1]).shape == (0, 1, 1, 1)


# --- results ---


@pytest.mark.parametrize("size", [1, 5, 63, 64, 4097])
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_are_64_byte_aligned_contiguous_writable_and_their_own(dtype: str, size: int) -> None:
    weights = random_array(0, (1, 1, 1, 1), dtype)
    image = random_array(1, (1, 1, size, 1), dtype)
    results = [gradops.conv2d(image, weights, ONES, "SAME") for _ in range(8)]
    for result in results:
        assert result.ctypes.data % 64 == 0
        assert result.flags.c_contiguous
        assert result.flags.writeable
    addresses = {result.ctypes.data for result in results}
    assert len(addresses) == len(results)
    results[0][...] = 0
    assert np.array_equal(results[1], gradops.conv2d(image, weights, ONES, "SAME"))


def test_a_result_keeps_its_memory_while_any_view_of_it_lives() -> None:
    weights, grad, wanted = case_of("float32")
    view = gradient(weights, grad)[0, 1:]
    for _ in range(5):
        gc.collect()
        gradient(weights, -grad)  # would take the memory if it were free
    assert np.array_equal(view, wanted[0, 1:])


def test_inputs_are_not_kept_alive() -> None:
    weights, grad, _ = case_of("float32")
    gone = weakref.ref(grad)
    gradient(weights, grad)
    del grad
    gc.collect()
    assert gone() is None


# --- out= ---


@pytest.mark.parametrize("dtype", DTYPES)
def test_out_is_filled_and_returned(dtype: str) -> None:
    weights, grad, wanted = case_of(dtype)
    out = np.full(wanted.shape, 77, wanted.dtype)
    assert gradient(weights, grad, out=out) is out
    same(out, wanted)


@pytest.mark.parametrize("layout", ["Fortran order", "negative strides", "gaps", "permuted", "misaligned"])
def test_out_may_have_any_strides(layout: str) -> None:
    weights, grad, wanted = case_of("float32")
    out = LAYOUTS[layout](np.full(wanted.shape, 77, np.float32))
    assert gradient(weights, grad, out=out) is out
    assert np.array_equal(out, wanted)


def test_out_between_gaps_leaves_the_gaps_alone() -> None:
    weights, grad, wanted = case_of("float32")
    whole = np.full((*wanted.shape[:-1], 2 * wanted.shape[-1]), 7, np.float32)
    gradient(weights, grad, out=whole[..., ::2])
    assert np.array_equal(whole[..., ::2], wanted)
    assert (whole[..., 1::2] == 7).all()


def test_every_operator_has_out() -> None:
    image, boxes = np.ones((1, 3, 3, 1), np.float32), np.array([[0, 0, 1, 1]], np.float32)
    out = np.empty((1, 2, 2, 1), np.float32)
    assert gradops.conv2d(image, np.ones((2, 2, 1, 1), np.float32), ONES, "VALID", out=out) is out
    assert (out == 4).all()
    assert gradops.crop_and_resize(image, boxes, [0], [2, 2], out=out) is out
    assert (out == 1).all()
    half = np.full((1, 2, 2, 1), 5, np.float16)
    assert gradops.crop_and_resize_grad_image(out, boxes, [0], [1, 2, 2, 1], "half", out=half) is half
    assert (half == 1).all()


def test_out_of_a_result_without_terms_is_set_to_zero() -> None:
    out = np.full((1, 2, 2, 1), 5, np.float32)
    gradops.conv2d_backprop_input(
        [1, 2, 2, 1], np.ones((1, 1, 1, 0), np.float32), np.ones((1, 2, 2, 0), np.float32), ONES, "SAME", out=out
    )
    assert not out.any()


def wrong_out(what: str, weights: Array, grad: Array, wanted: Array) -> Any:
    shape = wanted.shape
    shared = np.zeros(wanted.size + grad.size, np.float32)
    shared[: grad.size] = grad.ravel()
    return {
        "dtype": np.empty(shape, np.float64),
        "byte order": np.empty(shape, ">f4"),
        "shape": np.empty((1, *shape), np.float32),
        "size": np.empty((*shape[:3], shape[3] + 1), np.float32),
        "read-only": read_only(wanted),
        "list": wanted.tolist(),
        "masked": np.ma.masked_array(np.empty(shape, np.float32)),
        "matrix subclass": np.empty(shape, np.float32).view(type("Mine", (np.ndarray,), {})),
        "the filter": np.lib.stride_tricks.as_strided(weights, shape, (4, 0, 0, 0)),
    }[what]


@pytest.mark.parametrize(
    ("what", "error", "words"),
    [
        ("dtype", InvalidArgumentError, "out is float64 of shape .* but the result is float32"),
        ("byte order", InvalidArgumentError, "out is >f4 of shape"),
        ("shape", InvalidArgumentError, r"out is float32 of shape \(1, 2, 5, 6, 4\), but the result"),
        ("size", InvalidArgumentError, r"out is float32 of shape \(2, 5, 6, 5\), but .* \(2, 5, 6, 4\)"),
        ("read-only", InvalidArgumentError, "out is read-only"),
        ("list", TypeError, "out must be a NumPy array, not builtins.list"),
        ("masked", TypeError, "out must be a NumPy array"),
        ("matrix subclass", TypeError, "out must be a NumPy array"),
        ("the filter", InvalidArgumentError, "out shares memory with an input"),
    ],
)
def test_an_out_that_does_not_serve_is_refused(what: str, error: type[Exception], words: str) -> None:
    weights, grad, wanted = case_of("float32")
    with pytest.raises(error, match=f"conv2d_backprop_input: {words}"):
        gradient(weights, grad, out=wrong_out(what, weights, grad, wanted))


def test_out_must_not_overlap_an_input_but_may_lie_between_its_elements() -> None:
    image, weights = np.ones((1, 4, 4, 1), np.float32), np.ones((1, 1, 1, 1), np.float32)
    with pytest.raises(InvalidArgumentError, match="out shares memory with an input"):
        gradops.conv2d(image, weights, ONES, "SAME", out=image)
    with pytest.raises(InvalidArgumentError, match="out shares memory with an input"):
        gradops.conv2d(image, weights, ONES, "SAME", out=image[:, ::-1])
    both = np.zeros((1, 4, 4, 2), np.float32)
    both[..., 0] = 3
    gradops.conv2d(both[..., :1], weights, ONES, "SAME", out=both[..., 1:])
    assert (both == 3).all()


# --- PyTorch ---


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_in_torch_out(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    weights, grad, wanted = case_of(dtype)

    def tensor(array: Array) -> Any:
        if dtype == "bfloat16":
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)

    result = gradient(tensor(weights), tensor(grad))
    assert type(result) is torch.Tensor
    assert result.dtype is getattr(torch, dtype)
    assert torch.equal(result, tensor(wanted))
    strided = tensor(grad).permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0)
    assert not strided.is_contiguous()
    assert torch.equal(gradient(tensor(weights), strided), tensor(wanted))
    result.zero_()  # the memory is the tensor's to write


def test_torch_crops() -> None:
    torch = pytest.importorskip("torch")
    image = torch.arange(9, dtype=torch.uint8).reshape(1, 3, 3, 1)
    crops = gradops.crop_and_resize(image, torch.tensor([[0.0, 0, 1, 1]]), torch.tensor([0], dtype=torch.int32), [2, 2])
    assert crops.dtype is torch.float32
    assert crops.ravel().tolist() == [0, 2, 6, 8]
    back = gradops.crop_and_resize_grad_image(crops, [[0, 0, 1, 1]], [0], [1, 3, 3, 1], torch.float64)
    assert back.dtype is torch.float64
    assert back.ravel().tolist() == [0, 0, 2, 0, 0, 0, 6, 0, 8]


def test_sizes_and_indices_may_be_of_another_kind() -> None:
    torch = pytest.importorskip("torch")
    weights, grad, wanted = case_of("float32")
    sizes = torch.tensor(CASE.input_sizes, dtype=torch.int32)
    same(gradops.conv2d_backprop_input(sizes, weights, grad, **CASE.attrs), wanted)


def refused_by_torch(what: str, torch: Any, grad: Any) -> Any:
    return {
        "requires_grad": lambda: grad.clone().requires_grad_(),
        "sparse": grad.to_sparse,
        "conjugated": lambda: grad.to(torch.complex64).conj(),
        "meta": lambda: grad.to("meta"),
        "quantized": lambda: torch.quantize_per_tensor(grad, 0.1, 0, torch.qint8),
        "a dtype": lambda: torch.float32,
    }[what]()


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("requires_grad", r"requires a gradient.*gradops\.torch.*out_backprop\.detach\(\)"),
        ("sparse", r"is sparse .*out_backprop\.to_dense\(\)"),
        ("conjugated", r"is a conjugate view.*out_backprop\.resolve_conj\(\)"),
        ("meta", r"is on device meta"),
        ("quantized", r"is quantized.*out_backprop\.dequantize\(\)"),
        ("a dtype", "is a dtype. Give a tensor"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_tensor_that_cannot_be_read_here_and_now_is_refused(what: str, words: str) -> None:
    torch = pytest.importorskip("torch")
    weights, grad, _ = case_of("float32")
    tensor = refused_by_torch(what, torch, torch.from_numpy(grad))
    with pytest.raises(TypeError, match=f"conv2d_backprop_input: out_backprop {words}"):
        gradient(torch.from_numpy(weights), tensor)


def test_a_negated_view_is_read_as_what_it_shows() -> None:
    torch = pytest.importorskip("torch")
    weights, grad, wanted = case_of("float32")
    negated = torch._neg_view(torch.from_numpy(-grad))
    assert negated.is_neg()
    assert np.array_equal(gradient(torch.from_numpy(weights), negated).numpy(), wanted)


def test_a_tensor_inside_a_function_transform_is_refused() -> None:
    torch = pytest.importorskip("torch")
    weights, grad, _ = case_of("float32")
    batch = torch.from_numpy(np.stack([grad, grad]))
    with pytest.raises(TypeError, match="out_backprop has no memory of its own to read"):
        torch.func.vmap(lambda tensor: gradient(torch.from_numpy(weights), tensor))(batch)


def test_float64_tensors_are_never_cut_to_float32() -> None:
    torch = pytest.importorskip("torch")
    weights, grad, _ = case_of("float32")
    with pytest.raises(InvalidArgumentError, match="out_backprop is float64, but an earlier input is float32"):
        gradient(torch.from_numpy(weights), torch.from_numpy(grad).double())
    with pytest.raises(InvalidArgumentError, match=r"boxes must be float32.*boxes\.to\(torch\.float32\)"):
        gradops.crop_and_resize(np.ones((1, 2, 2, 1), np.float32), torch.zeros((1, 4)).double(), [0], [1, 1])


def test_kinds_do_not_mix() -> None:
    torch = pytest.importorskip("torch")
    weights, grad, _ = case_of("float32")
    with pytest.raises(TypeError, match="filter is a NumPy array and out_backprop a PyTorch array"):
        gradient(weights, torch.from_numpy(grad))


def test_out_is_for_numpy_inputs() -> None:
    torch = pytest.importorskip("torch")
    weights, grad, wanted = case_of("float32")
    with pytest.raises(TypeError, match="out works with NumPy inputs, but these are PyTorch"):
        gradient(torch.from_numpy(weights), torch.from_numpy(grad), out=wanted)
    with pytest.raises(TypeError, match=r"out must be a NumPy array, not torch\.Tensor"):
        gradient(weights, grad, out=torch.from_numpy(wanted))


def test_negative_strides_never_reach_torch() -> None:
    """`torch.from_dlpack` of a negative stride ends the process, so this is asked of another one."""
    pytest.importorskip("torch")
    code = """
import numpy as np, torch, gradops
image = torch.arange(9.0).reshape(1, 3, 3, 1).flip(1)
backwards = np.zeros(1, np.int32)[::-1]
print(gradops.crop_and_resize(image, [[1, 1, 0, 0]], backwards, [2, 2]).ravel().tolist())
"""
    assert run(code) == "[2.0, 0.0, 8.0, 6.0]"


# --- JAX ---


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
def test_jax_in_jax_out(dtype: str) -> None:
    jax = pytest.importorskip("jax")
    weights, grad, wanted = case_of(dtype)
    result = gradient(jax.numpy.asarray(weights), jax.numpy.asarray(grad))
    assert isinstance(result, jax.Array)
    assert result.dtype == wanted.dtype
    assert np.asarray(result).tobytes() == wanted.tobytes()


def test_a_large_result_goes_to_jax_without_a_copy() -> None:
    """Only memory that is 64-byte aligned does."""
    jax = pytest.importorskip("jax")
    image = jax.numpy.ones((1, 300, 300, 1))
    result = gradops.conv2d(image, jax.numpy.ones((1, 1, 1, 1)), ONES, "SAME")
    assert result.unsafe_buffer_pointer() % 64 == 0
    assert ctypes.c_float.from_address(result.unsafe_buffer_pointer()).value == 1


def test_an_empty_result_goes_to_jax() -> None:
    jax = pytest.importorskip("jax")
    result = gradops.conv2d(jax.numpy.ones((0, 3, 3, 1)), jax.numpy.ones((1, 1, 1, 1)), ONES, "SAME")
    assert isinstance(result, jax.Array)
    assert result.shape == (0, 3, 3, 1)


def test_jax_arrays_stay_as_they_are() -> None:
    jax = pytest.importorskip("jax")
    weights, grad, wanted = case_of("float32")
    given = jax.numpy.asarray(grad)
    gradient(jax.numpy.asarray(weights), given)
    assert np.array_equal(np.asarray(given), grad)
    with pytest.raises(TypeError, match="out must be a NumPy array"):
        gradient(weights, grad, out=jax.numpy.asarray(wanted))


@pytest.mark.parametrize("transform", ["jit", "grad", "vmap"])
def test_a_traced_jax_array_is_refused(transform: str) -> None:
    jax = pytest.importorskip("jax")
    weights, grad, _ = case_of("float32")

    constant = jax.numpy.asarray(weights)

    def loss(value: Any) -> Any:
        return gradient(constant, value).sum()

    given = jax.numpy.asarray(np.stack([grad, grad]) if transform == "vmap" else grad)
    with pytest.raises(TypeError, match=r"out_backprop is traced by jax.*use gradops\.jax"):
        getattr(jax, transform)(loss)(given)


def test_a_deleted_jax_array_is_refused() -> None:
    jax = pytest.importorskip("jax")
    weights, grad, _ = case_of("float32")
    given = jax.numpy.asarray(grad) + 0
    given.delete()
    with pytest.raises(TypeError, match=r"out_backprop cannot be read.*deleted"):
        gradient(jax.numpy.asarray(weights), given)


def test_a_float64_result_is_not_cut_by_jax() -> None:
    jax = pytest.importorskip("jax")
    grads = jax.numpy.ones((1, 1, 1, 1))
    with pytest.raises(TypeError, match="jax_enable_x64"):
        gradops.crop_and_resize_grad_image(grads, [[0, 0, 0, 0]], [0], [1, 1, 1, 1], np.float64)


# --- anything else ---


class Exporter:
    """An array that speaks DLPack and nothing else."""

    def __init__(self, array: Array, device: tuple[int, int] = (1, 0)) -> None:
        self._array = array
        self._device = device

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


def test_anything_with_dlpack_on_the_cpu_is_read() -> None:
    weights, grad, wanted = case_of("float32")
    same(gradient(Exporter(weights), Exporter(grad)), wanted)
    same(gradient(Exporter(weights), Exporter(np.asfortranarray(grad))), wanted)


class Namespaced(Exporter):
    """The same with an array namespace, which makes arrays of its kind."""

    def __array_namespace__(self) -> Any:
        class Namespace:
            @staticmethod
            def from_dlpack(array: Array) -> Namespaced:
                return Namespaced(np.from_dlpack(array))

        return Namespace


def test_the_result_is_of_the_kind_its_namespace_makes() -> None:
    weights, grad, wanted = case_of("float32")
    result = gradient(Namespaced(weights), Namespaced(grad))
    assert type(result) is Namespaced
    same(np.from_dlpack(result), wanted)


def test_dlpack_on_another_device_is_refused() -> None:
    weights, grad, _ = case_of("float32")
    with pytest.raises(TypeError, match=r"out_backprop is on DLPack device 2\. Move it to the CPU first"):
        gradient(Exporter(weights), Exporter(grad, device=(2, 0)))


def test_dlpack_that_cannot_be_read_is_refused() -> None:
    weights, grad, _ = case_of("bfloat16")
    with pytest.raises(TypeError, match="filter cannot be read through DLPack"):
        gradient(Exporter(weights), Exporter(grad))


def test_arrays_that_would_be_computed_by_being_read_are_refused() -> None:
    lazy = type("Array", (), {"__module__": "dask.array.core", "__array__": lambda _: 1 / 0})()
    with pytest.raises(TypeError, match=r"input is a dask array: compute it first"):
        gradops.conv2d(lazy, np.ones((1, 1, 1, 1), np.float32), ONES, "SAME")


# --- what a caller's framework does to the process, or carries along ---


def test_a_caller_that_flushes_subnormals_changes_no_bit() -> None:
    torch = pytest.importorskip("torch")
    image, weights = np.full((8, 64, 64, 16), 1e-40, np.float32), np.ones((3, 3, 16, 16), np.float32)
    expected = gradops.conv2d(image, weights, [1, 1, 1, 1], "SAME")
    assert expected.all()
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush")
    try:
        flushing = gradops.conv2d(image, weights, [1, 1, 1, 1], "SAME")
    finally:
        torch.set_flush_denormal(False)
    assert flushing.tobytes() == expected.tobytes()


def test_a_torch_size_is_a_list_of_sizes() -> None:
    torch = pytest.importorskip("torch")
    image, weights = torch.ones(1, 4, 4, 1), torch.ones(3, 3, 1, 1)
    result = gradops.conv2d_backprop_input(image.shape, weights, image, [1, 1, 1, 1], "SAME")
    assert result.shape == image.shape


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # what PyTorch imports for it
def test_a_forward_mode_tangent_is_not_lost_silently() -> None:
    torch = pytest.importorskip("torch")
    image, weights = torch.ones(1, 4, 4, 1), torch.ones(3, 3, 1, 1)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(image, torch.ones_like(image))
        with pytest.raises(TypeError, match=r"input carries a forward-mode tangent.*gradops\.torch"):
            gradops.conv2d(dual, weights, [1, 1, 1, 1], "SAME")


def test_a_tensor_whose_storage_was_taken_away_is_refused() -> None:
    torch = pytest.importorskip("torch")
    image = torch.ones(1, 8, 8, 1)
    image.untyped_storage().resize_(0)
    with pytest.raises(TypeError, match="its storage is smaller"):
        gradops.conv2d(image, torch.ones(3, 3, 1, 1), [1, 1, 1, 1], "SAME")


def test_masked_arrays_in_a_list_are_refused() -> None:
    masked = np.ma.array(np.ones((4, 4, 1), np.float32), mask=True)
    with pytest.raises(TypeError, match="masks would be lost"):
        gradops.conv2d([masked], np.ones((3, 3, 1, 1), np.float32), [1, 1, 1, 1], "SAME")


def test_an_out_whose_elements_share_memory_is_refused() -> None:
    out = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1, 4, 4, 1), (0, 0, 0, 0))
    image, weights = np.ones((1, 4, 4, 1), np.float32), np.ones((3, 3, 1, 1), np.float32)
    with pytest.raises(InvalidArgumentError, match="elements of out share memory"):
        gradops.conv2d(image, weights, [1, 1, 1, 1], "SAME", out=out)
