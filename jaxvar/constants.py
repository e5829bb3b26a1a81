"""The constants of the layered confidence radius, as data.

After layer l has learned in round k, with ``q = 4^-l`` and ``log0 = log(4 k^2 L / delta)``,
``log1 = log(4 (k + log_shift)^2 L / delta)``:

    V    = emp_coef Emp + log_coef R^2 log1 + floor_coef q + cross_coef (range_coef 2^-l R log0 + bias_coef 2^-l)^2
                                                                             where 2^l >= switch sqrt(log1), else
    V    = fallback_count R^2 n + fallback_weight R^2 W + fallback_log R^2 log1 + fallback_floor q
    beta = beta_scale (sqrt_coef 2^-l sqrt(V log0) + range_coef 2^-l R log0) + bias_coef 2^-l

``Emp = sum w^2 (r - <theta_hat, a>)^2``, ``n`` and ``W = sum w^2`` are taken over what the layer has learned from.
Before it has learned, ``beta = initial_coef 2^-l``. ``beta_scale`` multiplies the stochastic part only.
"""

from __future__ import annotations

from typing import Any

from jaxvar import checks
from jaxvar.pytrees import leaf, pytree, static


@pytree
class RadiusConstants:
    """One value for every constant of the radius; each is a leaf and can be swept."""

    beta_scale: Any
    sqrt_coef: Any
    emp_coef: Any
    log_coef: Any
    floor_coef: Any
    cross_coef: Any
    range_coef: Any
    bias_coef: Any
    initial_coef: Any
    switch: Any
    log_shift: Any
    fallback_count: Any
    fallback_weight: Any
    fallback_log: Any
    fallback_floor: Any
    label: str = static(default="custom")


def custom(label: str = "custom", **values: Any) -> RadiusConstants:
    """Constants of one's own: every field of :class:`RadiusConstants`, each finite and not negative."""
    names = [name for name in RadiusConstants.__dataclass_fields__ if name != "label"]
    missing, unknown = set(names) - set(values), set(values) - set(names)
    if missing or unknown:
        raise ValueError(f"constants need exactly {names}: missing {sorted(missing)}, unknown {sorted(unknown)}")
    return RadiusConstants(**{n: leaf(checks.number(n, values[n], low=0.0)) for n in names}, label=label)


def paper(beta_scale: Any = 1.0) -> RadiusConstants:
    """The constants as printed (label ``eq:def:beta``): 16, 8, 6, 2^(-2l+4), 6, 2 and the switch at 64."""
    return _printed("paper", beta_scale, log_coef=6.0, floor_coef=16.0)


def paper_fixed(beta_scale: Any = 1.0) -> RadiusConstants:
    """:func:`paper` with the two additive terms that the lemma on the variance estimate really needs.

    Its proof gives ``8 Emp + 9.62 R^2 log + 2^(-2l+7)``; the printed 6 and 2^(-2l+4) drop a factor 4.
    """
    return _printed("paper_fixed", beta_scale, log_coef=9.62, floor_coef=128.0)


def tight(beta_scale: Any = 1.0) -> RadiusConstants:
    """The smallest constants the same proof allows: 3.15 and 1.73 for 16 and 6, and R^2 W for R^2 n.

    Provable up to the peeling over the random variance sum, which changes the logarithms by a log-log term.
    """
    return custom(
        "tight",
        beta_scale=beta_scale,
        sqrt_coef=3.15,
        emp_coef=8.0,
        log_coef=28.0 / 3.0,
        floor_coef=0.0,
        cross_coef=16.0,
        range_coef=1.73,
        bias_coef=1.0,
        initial_coef=2.0,
        switch=12.6,
        log_shift=0.0,
        fallback_count=0.0,
        fallback_weight=1.0,
        fallback_log=0.0,
        fallback_floor=0.0,
    )


def practical(beta_scale: Any = 0.1) -> RadiusConstants:
    """The empirical variance in every layer and a small multiplier: not proved, meant for feasible K."""
    return custom(
        "practical",
        beta_scale=beta_scale,
        sqrt_coef=3.15,
        emp_coef=2.0,
        log_coef=0.125,
        floor_coef=0.0,
        cross_coef=0.0,
        range_coef=1.73,
        bias_coef=1.0,
        initial_coef=2.0,
        switch=0.0,
        log_shift=0.0,
        fallback_count=0.0,
        fallback_weight=0.0,
        fallback_log=0.0,
        fallback_floor=0.0,
    )


def _printed(label: str, beta_scale: Any, *, log_coef: float, floor_coef: float) -> RadiusConstants:
    return custom(
        label,
        beta_scale=beta_scale,
        sqrt_coef=16.0,
        emp_coef=8.0,
        log_coef=log_coef,
        floor_coef=floor_coef,
        cross_coef=0.0,
        range_coef=6.0,
        bias_coef=2.0,
        initial_coef=2.0,
        switch=64.0,
        log_shift=1.0,
        fallback_count=8.0,
        fallback_weight=0.0,
        fallback_log=log_coef,
        fallback_floor=floor_coef,
    )
