"""What is said of any layer that has just learned: confidence, variance, weights, potential and count.

The same for SAVE and for UCRL-AVE but for the logarithms and some numbers, which are arguments. All sides of
inequalities are ``[layers]``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxvar import constants as presets
from jaxvar import ridge
from jaxvar.audit import shadow as shadows
from jaxvar.audit.peaks import Check
from jaxvar.audit.statement import ROUNDING, Statement
from jaxvar.constants import RadiusConstants
from jaxvar.ridge import radius

EXACT = 1e-8  # relative: how exactly identities hold


def judged(setting: str) -> dict[str, RadiusConstants]:
    """The radii that are judged in bandits or in episodes, by name, whichever is played with."""
    printed, corrected = presets.paper(setting=setting), presets.paper_fixed(setting=setting)
    return {"printed": printed, "corrected": corrected, "tight": presets.tight()}


class Seen(NamedTuple):
    """A layer's shadow with what follows from it."""

    q: Any  # [layers]   4^-l
    theta_hat: jax.Array  # [layers, d]
    error: jax.Array  # [layers]   |theta_hat - theta*|_Sigma
    emp: jax.Array  # [layers]   the empirical variance sum


def look(shadow: shadows.Shadow, theta_star: jax.Array, lam: Any) -> Seen:
    """At all layers."""
    q = ridge.scales(shadow.count.shape[0], shadow.count.dtype)
    theta_hat = shadows.estimate(shadow)
    error = shadows.error(shadow, theta_hat, theta_star)
    return Seen(q, theta_hat, error, shadows.empirical(shadow, theta_hat, q * lam))


def inside(error: jax.Array, beta: jax.Array, applies: jax.Array) -> jax.Array:
    """Whether theta* is in the ellipsoids of all layers that are asked for, []."""
    return jnp.all(~applies | (error <= beta * (1 + ROUNDING)), axis=0)


def starts_inside(beta: jax.Array, theta_star: jax.Array, lam: Any) -> jax.Array:
    """The same before the first round, when ``theta_hat = 0`` and ``Sigma = q lam I``, []."""
    q = ridge.scales(beta.shape[0], beta.dtype)
    norm2 = jnp.sum(theta_star * theta_star, axis=0)
    error = jnp.sqrt(q * (lam * norm2)[None])
    return inside(error, beta, beta >= 0)


def radii_of(
    seen: Seen, shadow: shadows.Shadow, constants: RadiusConstants, noise_bound: Any, log0: Any, log1: Any
) -> jax.Array:
    """The radius of every layer, from the shadow."""
    scalars = (noise_bound[None], log0[None], log1[None])
    lifted = jax.tree.map(lambda x: jnp.asarray(x)[None], constants)
    return radius(seen.q, seen.emp, shadow.weight, shadow.count, lifted, *scalars)


def confidence_statements(names: tuple[str, ...], delta: float, radius_label: str, lemma: str) -> tuple[Statement, ...]:
    """For :func:`confidence`."""
    return (
        Statement("confidence-known", "confidence, true variances, 16 and 6", lemma, delta, "holds"),
        *(
            Statement(f"confidence-{n}", f"confidence, {n} radius", radius_label, min(1.0, 3 * delta), "holds")
            for n in names
        ),
    )


def confidence(
    seen: Seen, shadow: shadows.Shadow, learns: jax.Array, radii: list[jax.Array], noise_bound: Any, log: Any, bias: Any
) -> tuple[Check, ...]:
    """``|theta_hat - theta*|_Sigma`` by the true variances, and by each of the ``radii``; ``bias`` is B sqrt(lam)."""
    root = jnp.sqrt(seen.q)
    known = root * (16 * jnp.sqrt(shadow.variance * log[None]) + 6 * noise_bound[None] * log[None] + bias)
    return tuple(Check(seen.error, bound, learns) for bound in (known, *radii))


def variance_statements(delta: float, additive: tuple[str, str], labels: tuple[str, str]) -> tuple[Statement, ...]:
    """For :func:`variance`; ``additive`` are the printed and the corrected multiples of the logarithm."""
    event, lemma = labels
    note = "asked for layers with 2^l >= 64 sqrt(log) only, which no feasible run reaches; judged in those visited"
    twice, thrice = min(1.0, 2 * delta), min(1.0, 3 * delta)
    return (
        Statement("variance-first", "true variance by that of the noise", event, twice, "holds"),
        Statement("variance-second", "variance of the noise by the true one", event, twice, "holds"),
        Statement("estimate-printed", f"true variance by 8 Emp + {additive[0]} log", lemma, thrice, "open", note),
        Statement("estimate-corrected", f"true variance by 8 Emp + {additive[1]} log", lemma, thrice, "open", note),
        Statement("estimate-second", "Emp by the true variance", lemma, twice, "holds"),
    )


def variance(
    seen: Seen,
    shadow: shadows.Shadow,
    learns: jax.Array,
    noise_bound: Any,
    logs: tuple[Any, Any],
    additive: tuple[Any, Any],
    ridge_bias: Any,
) -> tuple[Check, ...]:
    """Both inequalities of both lemmas; ``additive`` are all terms after ``8 Emp``, printed and corrected."""
    lead = noise_bound[None] ** 2 * logs[0][None]
    half = 1.5 * shadow.variance + 7 / 3 * lead
    return (
        Check(shadow.variance, 2 * shadow.noise + 14 / 3 * lead, learns),
        Check(shadow.noise, half, learns),
        Check(shadow.variance, 8 * seen.emp + additive[0], learns),
        Check(shadow.variance, 8 * seen.emp + additive[1], learns),
        Check(seen.emp, half + seen.q * ridge_bias, learns),
    )


def design_statements(count_label: str) -> tuple[Statement, ...]:
    """For :func:`design`: what holds whatever the noise."""
    return (
        Statement("weight", "the weighted width is 2^-l", "alg:1:line:15", 0.0, "holds", f"to {EXACT:g}, relatively"),
        Statement("weight-one", "no weight is above one", "lemma:confidence", 0.0, "holds"),
        Statement("potential", "elliptical potential", "Lemma:abba", 0.0, "holds"),
        Statement("count-printed", "size of a layer, as printed", count_label, 0.0, "fails", "a factor 4^l is missing"),
        Statement("count-corrected", "size of a layer, times 4^l", count_label, 0.0, "holds"),
    )


def off_width(width2: jax.Array, q: Any, learns: jax.Array) -> jax.Array:
    """How far ``|w x|^2_{Sigma^-1} []`` is from ``q [layers]``, relatively, in the layer that learns."""
    return jnp.where(learns, jnp.abs(width2[None] / q - 1), 0)


def design(
    seen: Seen, shadow: shadows.Shadow, learns: jax.Array, weight: jax.Array, off: jax.Array, rounds: Any, lam: Any
) -> tuple[Check, ...]:
    """Weights, potential and counts, for features of norm at most one.

    ``weight [layers]`` and ``off [layers]`` are the largest weight and the largest :func:`off_width` of the round.
    """
    dim = shadow.sigma.shape[1]
    own = 2 * dim * jnp.log1p(shadow.count / (dim * seen.q * lam))
    all_rounds = 2 * dim * jnp.log1p(rounds[None] / (dim * seen.q * lam))
    one = jnp.ones_like(shadow.weight)
    return (
        Check(off, EXACT * one, learns),
        Check(weight, one, learns),
        Check(shadow.potential, own, learns),
        Check(shadow.count, all_rounds, learns),
        Check(shadow.count, all_rounds / seen.q, learns),
    )
