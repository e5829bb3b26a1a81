"""From names and numbers to the objects that are simulated.

A table with a name stands for a part of an object: ``noise = {name = "two_point", std = 0.1}`` is
``jaxvar.noise.two_point(0.1)``, its ``std`` may be a table of a schedule, and ``constants = {preset = "paper",
beta_scale = 0.3}`` is a preset with some numbers changed.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Mapping
from typing import Any

from jaxvar import parameters
from jaxvar.constants import number_names
from jaxvar.parameters import leaf
from jaxvar.study import names
from jaxvar.study.errors import StudyError, inside
from jaxvar.study.plain import short
from jaxvar.study.precision import in_precision

DEFAULT_PRESET = "paper"
_PARTS = {"noise": names.NOISES, "constants": names.PRESETS}  # arguments of algorithms and environments
_PARTS_OF_NOISE = {"std": names.SCHEDULES}
_INSTEAD_OF = {"num_episodes": "gap"}  # not filled in where the other is given
_TYPES: dict[Any, str] = {bool: "true or false", int: "an integer", str: "text"}


class Built(typing.NamedTuple):
    """An algorithm or an environment."""

    target: Any
    config: dict[str, Any]  # its factory's name and every argument: given, filled in or left at its default
    constants: str  # how an algorithm's radius came about, in a word or two


def build(factory: names.Factory, options: Mapping[str, Any], known: Mapping[str, Any]) -> Built:
    """Call ``factory`` with ``options``, and with what is ``known`` and was not given."""
    check_options(factory, options)
    filled = {
        n: known[n] for n in factory.parameters if n in known and n not in options and n not in _ruled_out(options)
    }
    for name in factory.required:
        if name not in options and name not in filled:
            raise StudyError(f"{name} must be given to {factory.name}")
    defaults = {n: p.default for n, p in factory.parameters.items() if n not in factory.required}
    config = {"name": factory.name, **defaults, **filled, **options}
    arguments = {**filled, **options}
    label = _constants_label(config)
    if "constants" in factory.parameters:
        arguments["constants"], config["constants"] = _constants(constants_table(options.get("constants")), factory)
    if isinstance(arguments.get("noise"), Mapping):
        arguments["noise"] = _noise(arguments["noise"])
    return Built(_call(factory, arguments), config, label)


def check_options(factory: names.Factory, options: Mapping[str, Any], parts: Mapping[str, Any] = _PARTS) -> None:
    """Refuse unknown keys and values of the wrong type, also inside tables."""
    for name, value in options.items():
        with inside(name):
            names.known(f"argument of {factory.name} named", name, factory.parameters)
            if isinstance(value, Mapping):
                if name not in parts:
                    raise StudyError(f"{name} must not be a table, got {short(dict(value))}")
                if name != "constants":
                    _check_part(name, value, parts[name])
            else:
                _check_type(name, value, factory.parameters[name].annotation)
            if name == "constants":
                constants_table(value)


def _check_part(name: str, table: Mapping[str, Any], catalogue: Mapping[str, names.Factory]) -> None:
    if "name" not in table:
        raise StudyError(f"{name} must be a table with a name, one of {', '.join(catalogue)}; got {short(dict(table))}")
    with inside("name"):
        factory = catalogue[names.known(name, table["name"], catalogue)]
    options = {key: value for key, value in table.items() if key != "name"}
    check_options(factory, options, _PARTS_OF_NOISE if catalogue is names.NOISES else {})
    for missing in factory.required:
        if missing not in options:
            raise StudyError(f"{missing} must be given to {name} {factory.name}")


def _check_type(name: str, value: Any, annotation: Any) -> None:
    """By the factory's annotation; what is ``Any`` there is a number or an array, which the factory looks at."""
    accepted = [t for t in (typing.get_args(annotation) or (annotation,)) if t in _TYPES]
    if not accepted and isinstance(value, bool):
        raise StudyError(f"{name} must not be true or false, got {value!r}")
    if accepted and type(value) not in accepted:
        raise StudyError(f"{name} must be {' or '.join(_TYPES[t] for t in accepted)}, got {short(value)}")


def constants_table(value: Any) -> dict[str, Any]:
    """``"paper"``, ``{preset = "paper"}`` and nothing at all are the same."""
    table = {"preset": DEFAULT_PRESET} if value is None else {"preset": value} if isinstance(value, str) else value
    if not isinstance(table, Mapping):
        raise StudyError(f"constants must be the name of a preset or a table, got {short(value)}")
    for name, number in table.items():
        with inside(name):
            names.known("constant", name, ("preset", *number_names()))
            if name == "preset":
                names.known("preset of constants", number, names.PRESETS)
            else:
                parameters.check_number(f"constants.{name}", number, low=0.0)
    return {"preset": DEFAULT_PRESET, **table}


def _constants(table: Mapping[str, Any], factory: names.Factory) -> tuple[Any, dict[str, Any]]:
    """The constants, and all their numbers by name."""
    preset = names.PRESETS[table["preset"]]
    (setting,) = factory.kinds
    with in_precision("float64"):  # a result says 0.1, and not what is left of it in float32
        made = preset.call(**({"setting": setting} if "setting" in preset.parameters else {}))
    numbers = {name: float(table.get(name, getattr(made, name))) for name in number_names()}
    constants = dataclasses.replace(made, **{name: leaf(number) for name, number in numbers.items()})
    return constants, {"preset": table["preset"], **numbers}


def _noise(table: Mapping[str, Any]) -> Any:
    arguments = {name: value for name, value in table.items() if name != "name"}
    with inside("noise", what="noise"):
        std = arguments.get("std")
        if isinstance(std, Mapping):
            with inside("std", what="std"):
                schedule = {name: value for name, value in std.items() if name != "name"}
                arguments["std"] = _call(names.SCHEDULES[std["name"]], schedule)
        return _call(names.NOISES[table["name"]], arguments)


def _call(factory: names.Factory, arguments: Mapping[str, Any]) -> Any:
    try:
        return factory.call(**arguments)
    except (ValueError, OverflowError) as error:
        # Messages of checks begin with the argument's name.
        first = re.match(r"\w*", str(error))
        where = (first[0],) if first and first[0] in arguments else ()
        raise StudyError(str(error), getattr(error, "where", where)) from None
    except MemoryError:
        raise StudyError(f"{factory.name} needs more memory than there is with {short(dict(arguments))}") from None


def _ruled_out(options: Mapping[str, Any]) -> set[str]:
    return {name for name, other in _INSTEAD_OF.items() if other in options}


def _constants_label(config: Mapping[str, Any]) -> str:
    if "constants" in config:
        table = constants_table(config["constants"])
        return ", ".join([table["preset"], *(f"{name} {value:g}" for name, value in table.items() if name != "preset")])
    if config.get("fixed_radius") is not None:
        return f"fixed radius {config['fixed_radius']:g}"
    if "beta_scale" in config:
        return "theorem" if config["beta_scale"] == 1 else f"scaled x{config['beta_scale']:g}"
    return "none"
