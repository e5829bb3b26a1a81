"""From names and numbers to the objects that are simulated, and the errors of a study.

A study names public factories, noise, schedules, presets of constants and recorders. Nothing is listed here: each
catalogue is read from the package, so that a new algorithm has its name at once.

A table with a name stands for a part of an object: ``noise = {name = "two_point", std = 0.1}`` is
``jaxvar.noise.two_point(0.1)``, its ``std`` may be a table of a schedule, and ``constants = {preset = "paper",
beta_scale = 0.3}`` is a preset with some numbers changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import importlib
import inspect
import math
import pkgutil
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.experimental
import numpy as np

from jaxvar import algorithms, constants, environments, parameters, records, wrappers
from jaxvar.environments import noise, schedules
from jaxvar.study.own import find_own, with_arrays

Table = Mapping[str, object]
Role = Literal["algorithm", "environment"]
PRECISIONS = ("float64", "float32")
_MAX_MESSAGE = 1000  # characters; a wrong value may be a whole array
_DEFAULT_PRESET = "paper"
_INSTEAD_OF = {"num_episodes": "gap"}  # not filled in where the other is given
short = parameters.shown  # of a wrong value in a message
_TYPES: dict[object, str] = {bool: "true or false", int: "an integer", str: "text"}


class StudyError(ValueError):
    """A study that cannot be run as it is written.

    ``where`` is the path of the wrong key in the study's configuration, ``("algorithm", 1, "delta")`` for the key
    ``delta`` of the second algorithm; a reader of files turns it into a line.
    """

    def __init__(self, message: str, where: tuple[str | int, ...] = ()) -> None:
        super().__init__(message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}...")
        self.where = where


class RunError(RuntimeError):
    """A study that could not be run, stored or read; the message is a sentence or a few, for the user."""


@contextlib.contextmanager
def error_at(*where: str | int, what: str = "") -> Iterator[None]:
    """Turn errors raised within into errors at the path ``where`` of the study, with ``what`` before their messages."""
    try:
        yield
    except ValueError as error:
        inner = error.where if isinstance(error, StudyError) else ()
        raise StudyError(f"{what}: {error}" if what else str(error), (*where, *inner)) from None


def in_precision(precision: str) -> contextlib.AbstractContextManager[None]:
    """Return a context in which numbers are made and programs are compiled in ``precision``."""
    home: Any = jax if hasattr(jax, "enable_x64") else jax.experimental  # it moved in newer versions
    return home.enable_x64(precision == "float64")


@dataclasses.dataclass(frozen=True)
class Factory:
    """A function that a name in a study stands for."""

    name: str
    call: Callable[..., Any]
    source: str = ""  # SHA-256 of its file, where it is not jaxvar's

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """Signature, with annotations that are types where they can be told."""
        try:
            return inspect.signature(self.call, eval_str=True)
        except NameError:
            return inspect.signature(self.call)

    @functools.cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """Parameters by name, without ``*args`` and ``**kwargs``."""
        return {n: p for n, p in self.signature.parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}

    @functools.cached_property
    def required(self) -> tuple[str, ...]:
        """Names of the parameters without a default."""
        return tuple(n for n, p in self.parameters.items() if p.default is inspect.Parameter.empty)

    @functools.cached_property
    def made(self) -> type:
        """Class of the object it returns; ``object`` where a user's function does not say."""
        made = self.call if isinstance(self.call, type) else self.signature.return_annotation
        return made if isinstance(made, type) else object

    @property
    def role(self) -> Role | None:
        """``algorithm`` or ``environment``; None where nobody can tell before it is called."""
        if hasattr(self.made, "update"):
            return "algorithm"
        return "environment" if hasattr(self.made, "init") else None

    @property
    def kinds(self) -> frozenset[str]:
        """Some of ``bandit``, ``duels`` and ``episodes``: what the algorithm plays, or the environment is."""
        if self.role is None:
            return frozenset({"bandit", "duels", "episodes"})
        if self.role == "environment":
            rounds = "duels" if hasattr(self.made, "duel") else "bandit"
            return frozenset({rounds if hasattr(self.made, "observe") else "episodes"})
        methods = {"bandit": "select", "duels": "pair", "episodes": "plan"}
        return frozenset(kind for kind, method in methods.items() if hasattr(self.made, method))


def _public(module: types.ModuleType) -> dict[str, Factory]:
    """Return the public functions of a module: those of its ``__all__``, or those that are defined in it."""
    defined = [n for n, f in vars(module).items() if getattr(f, "__module__", None) == module.__name__]
    functions = {n: getattr(module, n) for n in getattr(module, "__all__", defined) if not n.startswith("_")}
    return {n: Factory(n, f) for n, f in functions.items() if inspect.isfunction(f)}


@functools.cache
def public_factories() -> Mapping[str, Factory]:
    """Return every public function that makes an algorithm or an environment, by name."""
    found: dict[str, Factory] = {}
    for package in (algorithms, environments):
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            found |= {n: f for n, f in _public(importlib.import_module(info.name)).items() if hasattr(f.made, "init")}
    return dict(sorted(found.items()))


@functools.cache
def wrapper_factories() -> Mapping[str, Factory]:
    """Return every public function that wraps an algorithm or an environment, its first argument, by name."""
    found: dict[str, Factory] = {}
    for info in pkgutil.iter_modules(wrappers.__path__, f"{wrappers.__name__}."):
        found |= {n: f for n, f in _public(importlib.import_module(info.name)).items() if hasattr(f.made, "HOLDS")}
    return dict(sorted(found.items()))


def factory_names(role: Role) -> tuple[str, ...]:
    """Return the names of all algorithms or of all environments."""
    return tuple(name for name, factory in public_factories().items() if factory.role == role)


def find_factory(name: object, role: Role | None = None) -> Factory:
    """Return the factory of this name: jaxvar's ``"save"``, or a user's ``"package.module:Name"``.

    It must make an algorithm or an environment, as ``role`` says where it is given.
    """
    if isinstance(name, str) and ":" in name:
        factory = Factory(name, *find_own(name))
    elif isinstance(name, str) and name in public_factories():
        factory = public_factories()[name]
    else:
        known = public_factories() if role is None else factory_names(role)
        factory = public_factories()[check_name(role or "algorithm or environment", name, known)]
    if role is not None and factory.role not in (role, None):
        raise StudyError(f"{name!r} is an {factory.role}, not an {role}")
    return factory


NOISES: Mapping[str, Factory] = _public(noise)
SCHEDULES: Mapping[str, Factory] = _public(schedules)
PRESETS: Mapping[str, Factory] = {n: f for n, f in _public(constants).items() if "beta_scale" in f.parameters}
RECORDERS: Mapping[str, Factory] = {
    n: f for n, f in _public(records).items() if not f.parameters and hasattr(f.made, "read")
}
# Arguments that may be tables, with the names such a table may have: of algorithms and environments, and of noise.
_PARTS = {"noise": NOISES, "constants": PRESETS}
_PARTS_OF_NOISE = {"std": SCHEDULES}


def check_name(what: str, word: object, allowed: Iterable[str]) -> str:
    """Return ``word`` if it is one of ``allowed``; else raise an error that suggests the nearest one."""
    names = sorted(allowed)
    if isinstance(word, str) and word in names:
        return word
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.5) if isinstance(word, str) else []
    hint = f"did you mean {near[0]!r}?" if near else f"there {'is' if len(names) == 1 else 'are'} {', '.join(names)}"
    raise StudyError(f"there is no {what} {short(word)}; {hint}")


class Built(NamedTuple):
    """An algorithm or an environment, and how it was made."""

    target: Any
    config: dict[str, object]  # its factory's name and every argument: given, filled in or left at its default
    constants: str  # how an algorithm's radius came about, in a word or two


def build(factory: Factory, options: Table, known: Table) -> Built:
    """Call ``factory`` with ``options``, and with those of its arguments that are ``known`` and were not given.

    With a table ``wrap`` among the options the object is put into that wrapper.
    """
    check_options(factory, options)
    if "wrap" in options and "wrap" not in factory.parameters:
        inner = build(factory, {name: value for name, value in options.items() if name != "wrap"}, known)
        return _wrapped(inner, typing.cast(Table, options["wrap"]))
    ruled_out = {name for name, other in _INSTEAD_OF.items() if other in options}
    filled = {n: known[n] for n in factory.parameters if n in known and n not in options and n not in ruled_out}
    for name in factory.required:
        if name not in options and name not in filled:
            raise StudyError(f"{name} must be given to {factory.name}")
    defaults = {n: p.default for n, p in factory.parameters.items() if n not in factory.required}
    if factory.source:  # a default that JSON cannot hold is told by the source
        finite = {n: x for n, x in defaults.items() if not isinstance(x, float) or math.isfinite(x)}
        defaults = {n: x for n, x in finite.items() if isinstance(x, int | float | str | None)}
        defaults |= {"name": factory.name, "source_sha256": factory.source}  # also where a class has such a field
    config = {"name": factory.name, **defaults, **filled, **options}
    arguments = {**filled, **options}
    label = "none" if factory.source else _constants_label(config)
    if "constants" in (options if factory.source else factory.parameters):
        arguments["constants"], config["constants"] = _constants(constants_table(options.get("constants")), factory)
    table = arguments.get("noise")
    if isinstance(table, Mapping):
        with error_at("noise", what="noise"):
            arguments["noise"] = _part(table, NOISES)
    target = _call(factory, arguments)
    return Built(with_arrays(target), config, constants_of(target)) if factory.source else Built(target, config, label)


def _wrapped(inner: Built, table: Table) -> Built:
    """Put what was built into the wrapper that a table stands for."""
    wrapper = wrapper_factories()[str(table["name"])]
    given = {name: value for name, value in table.items() if name != "name"}
    with error_at("wrap", what="wrap"):
        target = _call(wrapper, {wrapper.required[0]: inner.target, **given})
    defaults = {n: p.default for n, p in wrapper.parameters.items() if n not in wrapper.required}
    return Built(target, {**inner.config, "wrap": {**defaults, **table}}, inner.constants)


def check_options(factory: Factory, options: Table, parts: Mapping[str, Mapping[str, Factory]] = _PARTS) -> None:
    """Refuse unknown keys and values of the wrong type, also inside tables."""
    for name, value in options.items():
        with error_at(name):
            if name == "wrap" and name not in factory.parameters and parts is _PARTS:
                if not isinstance(value, Mapping):
                    raise StudyError(f"wrap must be a table with a name, got {short(value)}")
                _check_part(name, value, wrapper_factories())
                continue
            check_name(f"argument of {factory.name} named", name, factory.parameters)
            if isinstance(value, Mapping):
                if name not in parts:
                    raise StudyError(f"{name} must not be a table, got {short(dict(value))}")
                if name != "constants":
                    _check_part(name, value, parts[name])
            else:
                _check_type(name, value, factory.parameters[name].annotation)
            if name == "constants":
                constants_table(value)


def _check_part(name: str, table: Table, catalogue: Mapping[str, Factory]) -> None:
    if "name" not in table:
        raise StudyError(f"{name} must be a table with a name, one of {', '.join(catalogue)}; got {short(dict(table))}")
    with error_at("name"):
        factory = catalogue[check_name(name, table["name"], catalogue)]
    options = {key: value for key, value in table.items() if key != "name"}
    check_options(factory, options, _PARTS_OF_NOISE if catalogue is NOISES else {})
    wraps = catalogue is wrapper_factories()  # its first argument is what is wrapped
    for missing in factory.required[1:] if wraps else factory.required:
        if missing not in options:
            raise StudyError(f"{missing} must be given to {name} {factory.name}")


def _check_type(name: str, value: object, annotation: object) -> None:
    """Refuse a value that is not of the annotated type; numbers and arrays are checked by the factory itself."""
    members = typing.get_args(annotation) or (annotation,)
    accepted = [] if float in members else [t for t in members if t in _TYPES]
    if not accepted and isinstance(value, bool):
        raise StudyError(f"{name} must not be true or false, got {value!r}")
    if accepted and type(value) not in accepted:
        raise StudyError(f"{name} must be {' or '.join(_TYPES[t] for t in accepted)}, got {short(value)}")


def constants_table(value: object) -> dict[str, Any]:
    """Return constants as a table with a preset: ``"paper"``, ``{preset = "paper"}`` and None mean the same."""
    table = {"preset": _DEFAULT_PRESET} if value is None else {"preset": value} if isinstance(value, str) else value
    if not isinstance(table, Mapping):
        raise StudyError(f"constants must be the name of a preset or a table, got {short(value)}")
    for name, number in table.items():
        with error_at(name):
            check_name("constant", name, ("preset", *constants.number_names()))
            if name == "preset":
                check_name("preset of constants", number, PRESETS)
            else:
                parameters.check_number(f"constants.{name}", number, low=0.0)
    return {"preset": _DEFAULT_PRESET, **table}


def _constants(table: Mapping[str, Any], factory: Factory) -> tuple[object, dict[str, object]]:
    """Return the constants, and all their numbers by name."""
    preset = PRESETS[table["preset"]]
    setting = min(factory.kinds)  # a bandit's, where an own function does not say
    with in_precision("float64"):  # a result says 0.1, and not what is left of it in float32
        made = preset.call(**({"setting": setting} if "setting" in preset.parameters else {}))
    numbers = {name: float(table.get(name, getattr(made, name))) for name in constants.number_names()}
    changed = dataclasses.replace(made, **{name: parameters.leaf(number) for name, number in numbers.items()})
    return changed, {"preset": table["preset"], **numbers}


def _part(table: Mapping[str, Any], catalogue: Mapping[str, Factory]) -> object:
    """Build the noise that a table stands for, or the schedule within it."""
    arguments = {name: value for name, value in table.items() if name != "name"}
    if isinstance(arguments.get("std"), Mapping):
        with error_at("std", what="std"):
            arguments["std"] = _part(arguments["std"], SCHEDULES)
    return _call(catalogue[table["name"]], arguments)


def _call(factory: Factory, arguments: Table) -> object:
    try:
        return factory.call(**arguments)
    except (ValueError, OverflowError) as error:
        first = re.match(r"\w*", str(error))  # messages of checks begin with the argument's name
        where = (first[0],) if first and first[0] in arguments else ()
        raise StudyError(str(error), getattr(error, "where", where)) from None
    except MemoryError:
        raise StudyError(f"{factory.name} needs more memory than there is with {short(dict(arguments))}") from None
    except Exception as error:
        if not factory.source:
            raise
        raise StudyError(f"{factory.name} raised {type(error).__name__}: {error}") from error


def constants_of(target: object) -> str:
    """Return how an object's radius came about, in a word or two: what :class:`Built` says of one that it made."""
    radius = getattr(target, "constants", None)
    if isinstance(radius, constants.RadiusConstants):
        numbers = {name: np.asarray(getattr(radius, name)) for name in constants.number_names()}
        preset = PRESETS.get(radius.label)
        if preset is None:
            return radius.label
        forms = [{"setting": s} for s in constants.SETTINGS] if "setting" in preset.parameters else [{}]
        changed = [
            [f"{name} {x:g}" for name, x in numbers.items() if x != np.asarray(getattr(original, name), x.dtype)]
            for original in (preset.call(**form) for form in forms)
        ]
        return ", ".join([radius.label, *min(changed, key=len)])
    if type(target).__module__.startswith(f"{algorithms.__name__}."):
        return _constants_label({name: getattr(target, name) for name in parameters.parameters(target)})
    return radius if isinstance(radius, str) else "none"


def _constants_label(config: Mapping[str, Any]) -> str:
    if "constants" in config:
        table = constants_table(config["constants"])
        return ", ".join([table["preset"], *(f"{name} {value:g}" for name, value in table.items() if name != "preset")])
    if config.get("fixed_radius") is not None:
        return f"fixed radius {config['fixed_radius']:g}"
    if "beta_scale" in config:
        return "theorem" if config["beta_scale"] == 1 else f"scaled x{config['beta_scale']:g}"
    return "none"
