"""jaxvar: batched simulation of variance-adaptive bandits and linear mixture MDPs, in JAX.

The ten lines to start from are in the README; ``help`` of each name has its equations, shapes and references.

The public names are those of :mod:`jaxvar.public`. They are loaded when the first of them is used, so that
``jaxvar --help`` does not wait for JAX.
"""

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING

__version__ = "0.2.0"

if TYPE_CHECKING:
    from jaxvar.public import *  # noqa: F403
    from jaxvar.public import __all__ as __all__

_FUNCTIONS = ("run", "simulate")  # public functions with the name of the module that they are in


class _Package(ModuleType):
    """The package, which finds its public names and its modules when they are first asked for."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _FUNCTIONS and isinstance(value, ModuleType):
            return  # set by the import of the module: the name stays that of the function
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name not in _FUNCTIONS and importlib.util.find_spec(f"{__name__}.{name}") is not None:
            return importlib.import_module(f"{__name__}.{name}")
        public = importlib.import_module(f"{__name__}.public")
        vars(self).update({known: getattr(public, known) for known in public.__all__}, __all__=public.__all__)
        if name not in vars(self):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return vars(self)[name]

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *importlib.import_module(f"{__name__}.public").__all__})


sys.modules[__name__].__class__ = _Package
