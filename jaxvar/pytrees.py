"""The two kinds of field an algorithm or an environment has.

``static()`` fields set shapes or the program (``dim``, ``explore``); all other fields are leaves: numbers that are
traced, can be swept, and never cause a compilation when they change.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np

T = TypeVar("T")


def static(**kwargs: Any) -> Any:
    """A dataclass field that is part of the program, not of the data."""
    return dataclasses.field(metadata={"static": True}, **kwargs)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(static, dataclasses.field))
def pytree(cls: type[T]) -> type[T]:
    """A frozen dataclass that is also a JAX pytree."""
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True, eq=False, kw_only=True)(cls))


def float_dtype() -> np.dtype[Any]:
    """The float type of this session: float64 where ``jax_enable_x64`` is on, else float32."""
    return np.dtype(jnp.result_type(float))


def leaf(value: Any) -> Any:
    """A number or array as a leaf of the session's float type, so that equal objects have equal types."""
    if isinstance(value, jax.Array):
        return value.astype(float_dtype())
    return np.asarray(value, dtype=float_dtype())
