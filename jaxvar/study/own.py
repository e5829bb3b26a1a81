"""Users' own algorithms and environments in a study: found by name, or given as objects.

``"package.module:Name"`` names a class or a function that returns an object. Results keep the name, the options and the
SHA-256 of the module's file, so that numbers of two versions of a class are never mixed. An object that is given
(:func:`jaxvar.compare`) is known by its class, the source of the class, and its numbers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import engine, game
from jaxvar.engine import is_pytree
from jaxvar.records import Recorder

_MAX_SHOWN = 16  # numbers of an array that a description spells out
_imported: dict[str, tuple[ModuleSpec, str]] = {}  # module -> what was imported, SHA-256 of its file then


def find_own(name: str) -> tuple[Callable[..., Any], str]:
    """Import the class or function that ``"package.module:Name"`` names; return it, and the SHA-256 of its file."""
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*", name):
        raise ValueError(f"name must be that of a factory or 'package.module:Name', got {name!r}")
    module_name, _, attribute = name.partition(":")
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.insert(0, os.getcwd())
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise ValueError(f"module {module_name!r} needs the module {error.name!r}, which is not there") from None
        raise ValueError(f"there is no module {error.name!r} in {os.getcwd()} or where Python looks for it") from None
    except Exception as error:
        raise ValueError(f"module {module_name!r} cannot be imported: {type(error).__name__}: {error}") from error
    file = getattr(module, "__file__", None)
    if not hasattr(module, attribute):
        near = difflib.get_close_matches(attribute, vars(module), n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"module {module_name!r} ({file}) has no {attribute!r}{hint}")
    found = getattr(module, attribute)
    if not callable(found):
        raise ValueError(f"{name} must be a class or a function that returns an object, got {found!r:.80}")
    if file is None or module.__spec__ is None:
        raise ValueError(f"module {module_name!r} must be a file, so that its version can be kept with the results")
    source = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    spec, before = _imported.setdefault(module_name, (module.__spec__, source))
    if spec is not module.__spec__:  # imported anew
        _imported[module_name] = (module.__spec__, source)
    elif before != source:
        raise ValueError(f"{file} has changed since this process imported it; start Python again")
    return found, source


def with_arrays(target: Any) -> Any:
    """Return an object with all its leaves as arrays of this session's types; as it is where it is no pytree."""
    if not is_pytree(target):
        return target

    def settled(path: tuple[Any, ...], x: Any) -> jax.Array | np.ndarray[Any, Any]:
        try:
            return x if isinstance(x, jax.Array) else np.asarray(jnp.asarray(x))
        except TypeError:
            field = f"{type(target).__name__}{jax.tree_util.keystr(path)}"
            raise ValueError(f"{field} must be a number or an array, or a static field, got {x!r:.80}") from None

    return jax.tree_util.tree_map_with_path(settled, target)


def described(target: object) -> dict[str, object]:
    """Return what tells an object from others of its class: the source of the class and all fields, for JSON."""
    cls, found = type(target), dict[str, object]()
    if not cls.__module__.startswith("jaxvar."):
        with contextlib.suppress(OSError, TypeError):  # made at a prompt
            found["source_sha256"] = hashlib.sha256(inspect.getsource(cls).encode()).hexdigest()
    return {**found, "object": _fields(target)}


def _fields(target: object) -> dict[str, object]:
    if dataclasses.is_dataclass(target):
        return {field.name: _plain(getattr(target, field.name)) for field in dataclasses.fields(target)}
    return {name: _plain(value) for name, value in getattr(target, "__dict__", {}).items()}


def _plain(value: object) -> object:
    """Return a field's value as JSON can hold it: a part of an object by its fields, a large array by its SHA-256."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    if isinstance(value, float | np.ndarray | np.generic | jax.Array):
        array = np.asarray(value)
        if array.size <= _MAX_SHOWN and np.all(np.isfinite(array)):
            return array.tolist()
        return f"{array.dtype}{list(array.shape)} {hashlib.sha256(array.tobytes()).hexdigest()}"
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if callable(value) or not (fields := _fields(value)):
        return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return {"name": class_name(value), **fields}


def class_name(target: object) -> str:
    """Return ``package.module:Name`` of an object's class."""
    return f"{type(target).__module__}:{type(target).__qualname__}"


def try_round(algorithm: object, environment: object, recorders: tuple[Recorder, ...]) -> None:
    """Trace one round, so that methods which return what no game can go on with are refused before anything runs."""

    def one_round(key_data: jax.Array) -> object:
        rules = engine.game_of(environment)
        fixed, carry = rules.begin(algorithm, environment, game.seed_keys(key_data, jnp.int32(0)), recorders)
        return rules.step(algorithm, environment, recorders, fixed, carry, jnp.int32(1))[0]

    jax.eval_shape(one_round, jax.ShapeDtypeStruct((2,), np.uint32))
