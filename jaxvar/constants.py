"""The constants of the layered confidence radius, as data.

After layer l has learned in round k, with ``q = 4^-l`` and ``log0 = log(4 k^2 L / delta)``,
``log1 = log(4 (k + log_shift)^2 L / delta)``:

    V    = emp_coef Emp + log_coef R^2 log1 + floor_coef q + cross_coef (range_coef 2^-l R log0 + bias_coef 2^-l)^2
                                                                             where 2^l >= switch sqrt(log1), else
    V    = fallback_count R^2 n + fallback_weight R^2 W + fallback_log R^2 log1 + fallback_floor q
                                + fallback_cross (range_coef 2^-l R log0 + bias_coef 2^-l)^2
    beta = beta_scale (sqrt_coef 2^-l sqrt(V log0) + range_coef 2^-l R log0) + bias_coef 2^-l

``Emp = sum w^2 (r - <theta_hat, a>)^2``, ``n`` and ``W = sum w^2`` are taken over what the layer has learned from.
Before it has learned, ``beta = initial_coef 2^-l``. ``beta_scale`` multiplies the stochastic part only.

The preset :func:`sharp` has another form of radius, ``jaxvar/sharp.py``, with three of these constants: ``bias_coef``
bounds the norm of theta*, and ``beta_scale`` multiplies what exceeds ``bias_coef 2^-l``.

UCRL-AVE has the same radius with R = 1, k H in place of k, and every layer's radius computed anew at the start of
every episode, with data or without (``initial_coef`` is not used). The paper prints other numbers for it, so presets
have a form for each ``setting``; given a bandit's preset, :func:`for_episodes` finds the other one.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from jaxvar import parameters
from jaxvar.parameters import Number, leaf, pytree, static

SETTINGS = ("bandit", "episodes")
SHARP_NUMBERS = ("beta_scale", "bias_coef", "initial_coef")  # the constants of the form "sharp"
PRESETS = Path(__file__).with_name("presets")  # what ``jaxvar calibrate`` wrote, a file each


@pytree
class RadiusConstants:
    """One value for every constant of the radius; each is a leaf and can be swept."""

    beta_scale: Number
    sqrt_coef: Number
    emp_coef: Number
    log_coef: Number
    floor_coef: Number
    cross_coef: Number
    range_coef: Number
    bias_coef: Number
    initial_coef: Number
    switch: Number
    log_shift: Number
    fallback_count: Number
    fallback_weight: Number
    fallback_log: Number
    fallback_floor: Number
    fallback_cross: Number
    label: str = static(default="custom")
    setting: str = static(default="any")  # "bandit", "episodes", or "any" where the numbers are meant for both
    form: str = static(default="printed")  # "printed", the formula above, or "sharp", that of jaxvar.sharp


def custom(label: str = "custom", **values: Number) -> RadiusConstants:
    """Return constants of one's own: every field of :class:`RadiusConstants`, each finite and not negative."""
    names = number_names()
    missing, unknown = set(names) - set(values), set(values) - set(names)
    if missing or unknown:
        raise ValueError(f"constants need exactly {names}: missing {sorted(missing)}, unknown {sorted(unknown)}")
    return RadiusConstants(**{n: leaf(parameters.check_number(n, values[n], low=0.0)) for n in names}, label=label)


def number_names() -> list[str]:
    """Return the names of the constants: the fields that are numbers."""
    return [f.name for f in dataclasses.fields(RadiusConstants) if not f.metadata.get("static")]


def paper(beta_scale: Number = 1.0, *, setting: str = "bandit") -> RadiusConstants:
    """Return the constants as printed.

    For a bandit (label ``eq:def:beta``): 16, 8, 6, 2^(-2l+4), 6, 2 and the switch at 64. For episodes
    (``eq:def:beta:mdp``): 16, 64, 8, 2^(-2l+5), 6, 1 and the switch at 64; 64 since the printed 8 stands both in the
    variance estimate and before it.
    """
    if parameters.check_choice("setting", setting, SETTINGS) == "episodes":
        return _printed("paper", setting, beta_scale, emp=64.0, log=8.0, floor=32.0, cross=0.0)
    return _printed("paper", setting, beta_scale, emp=8.0, log=6.0, floor=16.0, cross=0.0)


def paper_fixed(beta_scale: Number = 1.0, *, setting: str = "bandit") -> RadiusConstants:
    """Return :func:`paper` with the additive terms that the lemma on the variance estimate really needs.

    For a bandit its proof gives ``8 Emp + 9.62 R^2 log + 2^(-2l+7)``; the printed 6 and 2^(-2l+4) drop a factor 4. For
    episodes the 8 before the empirical variance counts once, and the additive part is
    ``16 (6 2^-l log + 2^-l)^2 + (28/3) log``.
    """
    if parameters.check_choice("setting", setting, SETTINGS) == "episodes":
        return _printed("paper_fixed", setting, beta_scale, emp=8.0, log=28.0 / 3.0, floor=0.0, cross=16.0)
    return _printed("paper_fixed", setting, beta_scale, emp=8.0, log=9.62, floor=128.0, cross=0.0)


def _printed(
    label: str, setting: str, beta_scale: Number, *, emp: float, log: float, floor: float, cross: float
) -> RadiusConstants:
    """Return a preset of the printed form, in which both branches of V have the same additive terms."""
    varied = {"log": log, "floor": floor, "cross": cross}
    shared = {"sqrt_coef": 16.0, "range_coef": 6.0, "initial_coef": 2.0, "switch": 64.0}
    by_setting = {"bias_coef": 2.0, "log_shift": 1.0} if setting == "bandit" else {"bias_coef": 1.0, "log_shift": 0.0}
    numbers = _else_zero(
        label,
        beta_scale=beta_scale,
        emp_coef=emp,
        fallback_count=8.0,
        **{f"{name}_coef": value for name, value in varied.items()},
        **{f"fallback_{name}": value for name, value in varied.items()},
        **shared,
        **by_setting,
    )
    return dataclasses.replace(numbers, setting=setting)


def _else_zero(label: str, **values: Number) -> RadiusConstants:
    """Return constants that are 0 but for these."""
    return custom(label, **{**dict.fromkeys(number_names(), 0.0), **values})


def tight(beta_scale: Number = 1.0) -> RadiusConstants:
    """Return the smallest constants the same proof allows: 3.15 and 1.73 for 16 and 6, and R^2 W for R^2 n.

    Provable up to the peeling over the random variance sum, which changes the logarithms by a log-log term.
    """
    return _else_zero(
        "tight",
        beta_scale=beta_scale,
        sqrt_coef=3.15,
        emp_coef=8.0,
        log_coef=28.0 / 3.0,
        cross_coef=16.0,
        range_coef=1.73,
        bias_coef=1.0,
        initial_coef=2.0,
        switch=12.6,
        fallback_weight=1.0,
    )


def sharp(beta_scale: Number = 1.0) -> RadiusConstants:
    """Return the radius of ``jaxvar/sharp.py``: proved for all rounds at once, and small enough to be used.

    The page ``docs/sharp.md`` has the proof. It needs no K: the radius has no logarithm of the round, and follows the
    observed residuals in every layer. There is nothing to tune; ``beta_scale`` below 1 gives up the proof. A layer that
    has learned nothing has the printed ``2 2^-l``: ``2^-l`` is enough for the proof, but cuts every index at 1, and
    AVE-UCB then draws among equal arms where it should go by their uncertainty.
    """
    bias = 1 + 1e-6  # a norm of 1 may round up
    numbers = _else_zero("sharp", beta_scale=beta_scale, bias_coef=bias, initial_coef=2.0)
    return dataclasses.replace(numbers, form="sharp")


def practical(beta_scale: Number | None = None, *, setting: str = "bandit") -> RadiusConstants:
    """Return constants with a measured multiplier: not proved, meant for feasible K.

    Every layer uses the empirical variance. If ``beta_scale`` is not given it is the smallest one at which the
    confidence event was seen to hold with probability 0.99 over a bank of instances, judged by the lower end of an
    interval: 0.1025 for bandits of up to 20,000 rounds, 0.0464 for up to 1,000 episodes. The files in
    ``jaxvar/presets`` have the bank, the counts and the command (``jaxvar calibrate``) that repeats them;
    calibrate again for much longer runs.
    """
    numbers: dict[str, Number] = dict(
        calibrated_numbers(PRESETS / f"{parameters.check_choice('setting', setting, SETTINGS)}.json")
    )
    if beta_scale is not None:
        numbers["beta_scale"] = beta_scale
    return dataclasses.replace(custom("practical", **numbers), setting=setting if beta_scale is None else "any")


def calibrated(algorithm: str) -> float:
    """Return the measured ``beta_scale`` of an algorithm that has a radius or bonus of its own, by its name.

    It is the smallest one at which its sets held theta*, or its plans were optimistic, with probability 0.99 over a
    small bank of instances. Nothing is proved with it. The file in ``jaxvar/presets`` has the counts and the command.
    """
    known = sorted({path.stem for path in PRESETS.glob("*.json")} - set(SETTINGS))
    return calibrated_numbers(PRESETS / f"{parameters.check_choice('algorithm', algorithm, known)}.json")["beta_scale"]


@functools.cache
def calibrated_numbers(path: Path) -> Mapping[str, float]:
    """Return the constants in a file of ``jaxvar calibrate``, which must rest on enough seeds for a claim."""
    found = json.loads(path.read_text())
    if found["claim"] is not True:
        raise ValueError(f"{path} must hold a claim, got one that rests on too few seeds")
    return found["constants"]


# The presets that have a form for each setting.
_BY_SETTING = {"paper": paper, "paper_fixed": paper_fixed, "practical": practical}


def _preset(name: str, value: object, setting: str) -> RadiusConstants:
    """Return ``value``, or the preset that it names: the paper's where it is None."""
    if isinstance(value, RadiusConstants):
        return value
    if value is not None and not isinstance(value, str):
        raise ValueError(
            f"{name} must come from jaxvar.constants, or be a preset's name, got {parameters.shown(value)}"
        )
    for_both = {"tight": tight, "sharp": sharp}
    word = parameters.check_choice(name, "paper" if value is None else value, (*_BY_SETTING, *for_both))
    return _BY_SETTING[word](setting=setting) if word in _BY_SETTING else for_both[word]()


def for_bandits(name: str, value: object) -> RadiusConstants:
    """Return ``value``, constants of a bandit's radius or the name of a preset; the paper's where it is None."""
    checked = _preset(name, value, "bandit")
    if checked.setting == "episodes":
        raise ValueError(f"{name} must be a bandit's, got {checked.label!r} with setting 'episodes'")
    return _only_used(name, checked)


def episodic(name: str, value: object) -> RadiusConstants:
    """Return ``value``, constants of UCRL-AVE's radius by :func:`for_episodes` or the name of a preset."""
    return _only_used(name, for_episodes(_preset(name, value, "episodes")))


def _only_used(name: str, constants: RadiusConstants) -> RadiusConstants:
    """Return ``constants``; refuse numbers that the sharp radius would not use."""
    numbers = {n: getattr(constants, n) for n in number_names()} if constants.form == "sharp" else {}
    for other, value in numbers.items():
        if parameters.is_traced(value):
            continue
        if other == "bias_coef" and not np.all(np.asarray(value) > 0):
            raise ValueError(
                f"{name}: bias_coef of 'sharp' bounds the norm of theta* and must be above 0, got {value!r}"
            )
        if other not in SHARP_NUMBERS and np.any(np.asarray(value) != 0):
            known = ", ".join(SHARP_NUMBERS)
            raise ValueError(f"{name}: 'sharp' has no constant {other}, got {value!r}; those it has are {known}")
    return constants


def for_episodes(constants: RadiusConstants) -> RadiusConstants:
    """Return ``constants`` as UCRL-AVE uses them: a bandit's preset becomes the one of the same name for episodes.

    Raises:
      ValueError: for a bandit's preset with changed numbers, since it is not clear what they should become.
    """
    if constants.setting != "bandit":
        return constants
    preset = _BY_SETTING[constants.label]
    original = preset(setting="bandit")
    scales = ("beta_scale",) if constants.label in ("paper", "paper_fixed") else ()  # printed ones may be scaled
    for name in number_names():
        mine = getattr(constants, name)
        if name not in scales and (parameters.is_traced(mine) or np.any(np.asarray(mine) != getattr(original, name))):
            raise ValueError(
                f"constants: {name} of the bandit preset {constants.label!r} was changed to {mine!r}; "
                f"change it in jaxvar.constants.{constants.label}(setting='episodes') instead"
            )
    return dataclasses.replace(preset(setting="episodes"), **{name: getattr(constants, name) for name in scales})
