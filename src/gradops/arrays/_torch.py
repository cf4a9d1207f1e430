"""PyTorch tensors on the CPU.

The traps, each with a test: a tensor that records gradients would come back without them; a
conjugated or negated view shares memory that does not hold its values; NumPy has no bfloat16, so
such a tensor travels as its bits; `torch.from_dlpack` of a negative stride ends the process, so
results go back through `torch.from_numpy`, which checks.
"""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

__all__ = ["KIND"]


class _TorchKind:
    name = "PyTorch"
    cast_hint = "{name}.to(torch.{dtype})"
    to_numpy_hint = "{name}.numpy()"

    def borrow(self, array: Any, op: str, argument: str) -> npt.NDArray[Any]:
        torch = sys.modules["torch"]
        if not isinstance(array, torch.Tensor):
            raise TypeError(f"{op}: {argument} is a {type(array).__name__}. Give a tensor.")
        for is_so, what, way_out in (
            (array.requires_grad, "requires a gradient, which this function would lose",
             "use gradops.torch, whose functions are differentiable, or give {0}.detach()"),
            (array.layout is not torch.strided, f"is sparse ({array.layout})", "give {0}.to_dense()"),
            (array.device.type != "cpu", f"is on device {array.device}", "give {0}.cpu()"),
            (array.is_quantized, "is quantized", "give {0}.dequantize()"),
            (array.is_conj(), "is a conjugate view", "give {0}.resolve_conj()"),
            (_has_tangent(torch, array), "carries a forward-mode tangent, which this function would lose",
             "use gradops.torch, whose functions are differentiable"),
        ):  # fmt: skip
            if is_so:
                raise TypeError(f"{op}: {argument} {what}: {way_out.format(argument)}.")
        try:
            array = array.detach().resolve_neg()
            if _reads_past_storage(array):
                raise RuntimeError("its storage is smaller than its sizes and strides say")
            if array.dtype is torch.bfloat16:
                return array.view(torch.int16).numpy().view(ml_dtypes.bfloat16)  # type: ignore[no-any-return]
            return array.numpy()  # type: ignore[no-any-return]
        except (RuntimeError, TypeError) as error:  # fake, functorch and other tensors without storage
            raise TypeError(f"{op}: {argument} has no memory of its own to read: {error}") from error

    def give_back(self, result: npt.NDArray[Any], like: Any) -> Any:
        torch = sys.modules["torch"]
        if result.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(result.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(result)


def _has_tangent(torch: Any, tensor: Any) -> bool:
    forward_ad = torch.autograd.forward_ad
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None


def _reads_past_storage(tensor: Any) -> bool:
    """Whether a tensor's storage was resized below it, as sharded training does: NumPy would read on."""
    if tensor.numel() == 0:
        return False
    last = tensor.storage_offset() + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return bool((last + 1) * tensor.element_size() > tensor.untyped_storage().nbytes())


KIND = _TorchKind()
