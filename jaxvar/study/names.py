"""The words a study may use: public factories, noise, schedules, presets of constants, recorders.

Nothing is listed here: each catalogue is read off the package, so that a new algorithm has its name at once.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from jaxvar import constants, records
from jaxvar.environments import noise, schedules
from jaxvar.study.errors import StudyError

Role = Literal["algorithm", "environment"]
_FOLDERS: dict[str, Role] = {"jaxvar.algorithms.": "algorithm", "jaxvar.environments.": "environment"}


@dataclasses.dataclass(frozen=True)
class Factory:
    """A function that a name stands for."""

    name: str
    call: Callable[..., Any]

    @functools.cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """By name, with annotations that are types."""
        return inspect.signature(self.call, eval_str=True).parameters

    @functools.cached_property
    def required(self) -> tuple[str, ...]:
        """The parameters without a default."""
        return tuple(n for n, p in self.parameters.items() if p.default is inspect.Parameter.empty)

    @functools.cached_property
    def made(self) -> type:
        """The class of what it returns."""
        return typing.cast(type, inspect.signature(self.call, eval_str=True).return_annotation)

    @property
    def role(self) -> Role | None:
        """Whether it makes an algorithm or an environment; None for parts of them."""
        return next((role for folder, role in _FOLDERS.items() if self.call.__module__.startswith(folder)), None)

    @property
    def kinds(self) -> frozenset[str]:
        """``bandit``, ``episodes`` or both: what the algorithm plays, or the environment is."""
        if self.role == "environment":
            return frozenset({"bandit" if hasattr(self.made, "observe") else "episodes"})
        methods = {"bandit": "select", "episodes": "plan"}
        return frozenset(kind for kind, method in methods.items() if hasattr(self.made, method))


@functools.cache
def factories() -> Mapping[str, Factory]:
    """Every public function of jaxvar that makes an algorithm or an environment."""
    import jaxvar  # its list of public names is complete only after all its parts, this one included, are imported

    functions = {name: getattr(jaxvar, name) for name in jaxvar.__all__}
    found = {name: Factory(name, f) for name, f in functions.items() if inspect.isfunction(f)}
    return {name: factory for name, factory in found.items() if factory.role is not None}


def of_role(role: Role) -> tuple[str, ...]:
    """The names of all algorithms or of all environments."""
    return tuple(name for name, factory in factories().items() if factory.role == role)


def _public(module: types.ModuleType) -> dict[str, Factory]:
    own = {n: f for n, f in vars(module).items() if inspect.isfunction(f) and f.__module__ == module.__name__}
    return {name: Factory(name, f) for name, f in own.items() if not name.startswith("_")}


NOISES: Mapping[str, Factory] = _public(noise)
SCHEDULES: Mapping[str, Factory] = _public(schedules)
PRESETS: Mapping[str, Factory] = {n: f for n, f in _public(constants).items() if "beta_scale" in f.parameters}
RECORDERS: Mapping[str, Factory] = {
    n: f for n, f in _public(records).items() if not f.parameters and hasattr(f.made, "read")
}


def known(what: str, word: Any, allowed: Iterable[str]) -> str:
    """``word`` if it is one of ``allowed``; else an error with the nearest right one."""
    names = sorted(allowed)
    if isinstance(word, str) and word in names:
        return word
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.5) if isinstance(word, str) else []
    shown = repr(word) if isinstance(word, str) and len(word) <= 80 else f"{str(word)[:60]!r}..."
    hint = f"did you mean {near[0]!r}?" if near else f"there {'is' if len(names) == 1 else 'are'} {', '.join(names)}"
    raise StudyError(f"there is no {what} {shown}; {hint}")
