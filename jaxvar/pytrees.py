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
    """A frozen dataclass that is also a JAX pytree.

    Its class is part of its structure. With ``jax.tree_util.register_dataclass`` two classes whose fields agree have
    equal structures, and a compiled program of the one may be run for the other.
    """
    cls = dataclasses.dataclass(frozen=True, eq=False, kw_only=True)(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    fixed = tuple(f.name for f in fields if f.metadata.get("static"))
    data = tuple(f.name for f in fields if not f.metadata.get("static"))

    def flatten(target: Any) -> tuple[list[Any], Any]:
        return [getattr(target, name) for name in data], (cls, tuple(getattr(target, name) for name in fixed))

    def flatten_with_keys(target: Any) -> tuple[list[Any], Any]:
        leaves, structure = flatten(target)
        return [(jax.tree_util.GetAttrKey(name), x) for name, x in zip(data, leaves, strict=True)], structure

    def unflatten(structure: Any, leaves: Any) -> Any:
        target = object.__new__(cls)  # not cls(...): leaves may be anything while JAX moves trees about
        for name, value in (*zip(fixed, structure[1], strict=True), *zip(data, leaves, strict=True)):
            object.__setattr__(target, name, value)
        return target

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def float_dtype() -> np.dtype[Any]:
    """The float type of this session: float64 where ``jax_enable_x64`` is on, else float32."""
    return np.dtype(jnp.result_type(float))


def leaf(value: Any) -> Any:
    """A number or array as a leaf of the session's float type, so that equal objects have equal types."""
    if isinstance(value, jax.Array):
        return value.astype(float_dtype())
    return np.asarray(value, dtype=float_dtype())
