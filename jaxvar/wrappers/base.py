"""The base of all wrappers: what they take, and what they pass on of it.

The game and the recorders ask an algorithm or an environment for more than its methods: sizes, bounds, a form for fixed
arms. A wrapper passes on only what is still true of the wrapped object.
"""

from __future__ import annotations

from typing import Any, ClassVar

from jaxvar.engine import as_pytree, unwrap
from jaxvar.game import grid_of
from jaxvar.parameters import part, pytree, static


def held(role: str, *methods: str) -> Any:
    """Declare the parameter that holds the bandit algorithm or environment, as ``role`` says; it needs ``methods``."""

    def check(name: str, value: object) -> object:
        who = type(value).__name__
        if not all(callable(getattr(value, method, None)) for method in methods):
            episodic = hasattr(value, "plan") or hasattr(value, "horizon")
            raise ValueError(
                f"{name} must be a bandit {role} with the methods {', '.join(methods)}, got {who}"
                + (", which is for episodes" if episodic else "")
            )
        if grid_of(value) is not None:
            raise ValueError(f"{name} must be one setting, got a sweep of {who}; wrap first, then sweep the wrapper")
        return as_pytree(value)

    return part(check, kw_only=False, doc=f"a bandit {role}, of jaxvar or your own.")


@pytree
class Wrapper:
    """Base of the wrappers; each has a field of the name ``HOLDS`` and passes on ``FACTS``."""

    HOLDS: ClassVar[str]
    FACTS: ClassVar[tuple[str, ...]]

    kind: type | None = static(default=None)  # the wrapped class: JAX may take two registered dataclasses for one

    @property
    def inner(self) -> Any:
        """The wrapped object as it was given."""
        return unwrap(self.__dict__[self.HOLDS])

    def check(self) -> None:
        """Note the class of the wrapped object."""
        self.__dict__["kind"] = type(self.inner)

    def __getattr__(self, name: str) -> object:
        """Return what the wrapped object has under the names that the game asks for."""
        if name not in self.FACTS or self.HOLDS not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        fields = getattr(self.inner, "__dict__", {})  # None where a rule would fill it in: the user did not say
        return fields[name] if name in fields else getattr(self.inner, name)
