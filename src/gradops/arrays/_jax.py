"""JAX arrays on the CPU.

They are immutable, so they are read through NumPy's read-only view and never offered as `out`.
A result goes back without a copy because it is 64-byte aligned (`jnp.asarray` would copy).
"""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

__all__ = ["KIND"]


class _JaxKind:
    name = "JAX"
    cast_hint = "{name}.astype(jnp.{dtype})"
    to_numpy_hint = "np.asarray({name})"

    def borrow(self, array: Any, op: str, argument: str) -> npt.NDArray[Any]:
        jax = sys.modules["jax"]
        if isinstance(array, jax.core.Tracer):
            raise TypeError(
                f"{op}: {argument} is traced by jax.jit, grad or vmap, and has no value yet: "
                "use gradops.jax, whose functions can be traced."
            )
        if not isinstance(array, jax.Array):
            raise TypeError(f"{op}: {argument} is a {type(array).__name__}. Give a jax.Array.")
        try:
            platforms = {device.platform for device in array.devices()}
            if platforms == {"cpu"}:
                return np.asarray(array)
        except (RuntimeError, TypeError) as error:  # deleted or donated; a random key
            raise TypeError(f"{op}: {argument} cannot be read: {error}") from error
        raise TypeError(
            f"{op}: {argument} is on {', '.join(sorted(platforms))}: "
            f"give jax.device_put({argument}, jax.devices('cpu')[0])."
        )

    def give_back(self, result: npt.NDArray[Any], like: Any) -> Any:
        jax = sys.modules["jax"]
        if result.dtype == np.float64 and not jax.config.jax_enable_x64:
            raise TypeError(
                "the result is float64, but JAX has 64-bit types switched off: set jax_enable_x64, or ask for float32."
            )
        if result.size == 0 or result.dtype == ml_dtypes.bfloat16:
            return jax.numpy.asarray(result)  # NumPy cannot export bfloat16 through DLPack: one copy
        return jax.numpy.from_dlpack(result)


KIND = _JaxKind()
