"""UCRL-AVE in linear mixture MDPs: confidence, optimism, the appendix's sums and the regret theorem.

Layers are counted from 1 and stages from 0. What the paper says on an event is judged only while it has held.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import constants as presets
from jaxvar import planning
from jaxvar.algorithms.interface import Model
from jaxvar.audit import layers, recursion
from jaxvar.audit import shadow as shadows
from jaxvar.audit.episode_sums import Sums, Worst, follow_episode, no_sums
from jaxvar.audit.peaks import Check, Peak, alone, no_peaks, raised, reading, whole
from jaxvar.audit.statement import Claim, Finding, Statement, finding
from jaxvar.parameters import float_dtype, pytree, static
from jaxvar.records import regret, value_variance, variance
from jaxvar.simulate import simulate

GROUP = "UCRL-AVE"


class Memory(NamedTuple):
    """What is kept of one seed."""

    optimal: jax.Array  # [H + 1, S]   V*
    shadow: shadows.Shadow
    beta: jax.Array  # [layers]   the algorithm's radii in the coming episode
    valid: jax.Array  # []   bool, whether they have held, those of the coming episode included
    sums: Sums
    peak: Peak


@pytree
class EpisodeAudit:
    """A recorder: the peaks of all statements, ``[statements, 5]``."""

    radii: Any  # name -> constants that are judged
    num: int = static()  # of statements
    orders: int = static()  # M

    name = "audit"

    def init(self, algorithm: Any, instance: Any) -> Memory:
        """Nothing was seen yet."""
        if not hasattr(algorithm, "confidence") or not hasattr(algorithm, "horizon"):
            raise ValueError("the audit needs UCRL-AVE in a linear mixture MDP")
        dtype, horizon = float_dtype(), algorithm.horizon
        model = Model(phi=instance.phi, reward=instance.reward, horizon=horizon)
        beta = algorithm.confidence(algorithm.init(model)).beta_hat
        return Memory(
            optimal=planning.optimal_values(instance.transition, instance.reward, horizon).value,
            shadow=shadows.no_shadow(algorithm.dim, algorithm.capacity, algorithm.lam, dtype),
            beta=beta,
            valid=layers.starts_inside(beta, instance.theta_star, algorithm.lam),
            sums=no_sums(self.orders + 2, dtype),
            peak=no_peaks(self.num, dtype),
        )

    def update(self, memory: Memory, event: Any, algorithm: Any, instance: Any) -> Memory:
        """One more episode."""
        played = planning.policy_values(instance.transition, instance.reward, event.plan.policy)
        beta = algorithm.confidence(event.state).beta_hat
        return _update(self.radii, memory, event._replace(state=None), algorithm, instance, played, beta)

    def read(self, memory: Memory) -> jax.Array:
        """[statements, 5]."""
        return reading(memory.peak)


def statements(names: tuple[str, ...], delta: float, is_proved: bool, orders: int) -> tuple[Statement, ...]:
    """What is judged, in the order of the recorder; ``is_proved`` is said of the radius that is played with."""
    given = "while the radii have held"
    claim: Claim = "holds" if is_proved else "open"
    return (
        *layers.confidence_statements(names, delta, "eq:def:beta:mdp", "lemma:event:sub"),
        *layers.variance_statements(delta, ("8", "28/3"), ("lemma:var'", "lemma:varest:mdp")),
        *layers.design_statements("lemma:card"),
        Statement(
            "optimism", "no planned value is below the optimum", "lemma:upper:finite", min(1.0, 3 * delta), claim
        ),
        Statement("optimism-given", "optimism, given the radii", "lemma:upper:finite", 0.0, "holds", given),
        Statement("descent", "[P V](s, a) <= V(s) along the path", "lemma:upper:bellman", 0.0, "holds", given),
        Statement("bellman-error", "Bellman error by 8 2^-l beta, where I_h = 1", "eq:ellnorm1", 0.0, "holds", given),
        *recursion.statements(delta, orders),
    )


def _update(
    radii: Any, memory: Memory, event: Any, algorithm: Any, instance: Any, played: jax.Array, beta: jax.Array
) -> Memory:
    sums, shadow, worst = follow_episode(memory.sums, memory.shadow, event, instance, memory.optimal, played)
    lam, horizon, num_layers = algorithm.lam, algorithm.horizon, algorithm.num_layers
    seen = layers.look(shadow, instance.theta_star, lam[None])
    k = event.round.astype(seen.error.dtype)
    log = jnp.log(4 * horizon**2 * num_layers / algorithm.delta) + 2 * jnp.log(k + 1)  # of the coming episode
    one = jnp.ones_like(log)
    stored = np.arange(1.0, beta.shape[0] + 1).reshape(-1, *(1,) * (beta.ndim - 1)) <= num_layers[None]
    everywhere = jnp.broadcast_to(stored, beta.shape)
    betas = [layers.radii_of(seen, shadow, c, one, log, log) for c in radii.values()]
    root, lead = jnp.sqrt(seen.q), log[None]
    additive = (8 * lead + 32 * seen.q, 28 / 3 * lead + 16 * (6 * root * lead + root) ** 2)
    valid = memory.valid & layers.inside(seen.error, beta, everywhere)
    peak = raised(
        memory.peak,
        (
            *layers.confidence(seen, shadow, everywhere, betas, one, log, 1),
            *layers.variance(seen, shadow, everywhere, one, (log, log), additive, 1),
            *layers.design(seen, shadow, worst.learned, worst.weight, worst.off, k * horizon, lam[None]),
            *_plan(memory, event, worst, seen),
            *recursion.inequalities(sums, memory.valid, k, algorithm.dim, horizon, lam, num_layers, algorithm.delta),
        ),
        event.round,
    )
    return Memory(memory.optimal, shadow, beta, valid, sums, peak)


def _plan(memory: Memory, event: Any, worst: Worst, seen: layers.Seen) -> tuple[Check, ...]:
    """Of the episode's plan, made with the radii from before it."""
    short = jnp.max(memory.optimal / (event.plan.value + 1e-9), axis=(0, 1))  # 0 / 0 after the last stage
    one = jnp.ones_like(short)
    before = jnp.concatenate([jnp.ones_like(memory.beta[:1]), memory.beta[:-1]])
    number = np.arange(1, before.shape[0] + 1).reshape(-1, *(1,) * (before.ndim - 1))
    bound = jnp.minimum(2, 8 * jnp.sqrt(seen.q) * before)
    return (
        alone(short, one),
        alone(short, one, memory.valid),
        alone(worst.descent, one, memory.valid),
        Check(worst.excess, bound, worst.learned & (number > 1) & memory.valid[None]),
    )


def theorem_bound(
    dim: int, num_episodes: int, horizon: int, lam: float, delta: float, total: Any, optimal: Any
) -> np.ndarray[Any, Any]:
    """The regret theorem with the constants of its proof, for ``lam = 1 / B^2`` (label ``thm:regret2``).

    ``total`` is the variance of the planned values along the paths, ``optimal`` that of V*.
    """
    steps = num_episodes * horizon
    num_layers = math.ceil(1.5 * math.log2(steps) - 1e-9)
    log = math.log(4 * steps**2 * num_layers / delta)
    few = math.ceil(math.log2(64 * math.sqrt(log)))
    r0 = np.zeros_like(np.asarray(total, float))
    for number in range(1, num_layers + 2):
        q = 4.0**-number
        count = 2 * dim / q * math.log1p(steps / (dim * q * lam)) if number <= num_layers else steps
        before = 4 * q
        emp = 1.5 * np.asarray(total) + before + 7 / 3 * log
        beta = math.sqrt(before) * (16 * np.sqrt((64 * emp + 8 * log + 32 * before) * log) + 6 * log + 1)
        r0 = r0 + count * (2 if number <= few else np.minimum(2, 8 * math.sqrt(q) * beta))
    grown = dim * num_layers / 2 * math.log1p(steps / (dim * lam)) + dim * num_layers**2
    short = math.log(1 / delta)
    a0 = 132 * short + 28 * np.sqrt(r0 * short) + 40 * math.sqrt(grown * short) + 8 * np.sqrt(optimal * short)
    a1 = 4 * np.sqrt((r0 + 2 * grown + a0) * short) + 11 * short
    above = np.sqrt(2 * (a1 + grown + 2 * (r0 + grown + a0)) * short) + 4 / 3 * short
    below = 2 * np.sqrt((r0 + 2 * grown + a0 + above) * short) + 7 * short
    return np.asarray(r0 + 2 * a0 + grown + above + below)


def audit_ucrl_ave(
    algorithm: Any,
    environment: Any,
    *,
    case: str,
    key: jax.Array,
    num_seeds: int,
    num_episodes: int,
    radii: Mapping[str, presets.RadiusConstants] | None = None,
    is_proved: bool = True,
) -> list[Finding]:
    """Play ``num_seeds`` seeds and judge every statement.

    ``radii`` are judged, and that of ``algorithm`` is played with; ``is_proved`` says whether it has a proof.
    """
    radii = layers.judged("episodes") if radii is None else dict(radii)
    delta, horizon = float(algorithm.delta), algorithm.horizon
    orders = recursion.orders(num_episodes, horizon)
    made = statements(tuple(radii), delta, is_proved, orders)
    recorder = EpisodeAudit(radii=radii, num=len(made), orders=orders)
    record = (recorder, regret(), variance(), value_variance())
    result = simulate(
        algorithm, environment, key=key, num_seeds=num_seeds, num_episodes=num_episodes, record_at=1, recorders=record
    )
    result.raise_if_failed()
    peaks = whole(result.records["audit"])
    found = [finding(GROUP, case, s, peaks[:, i]) for i, s in enumerate(made)]
    return [*found, _theorem(algorithm, result, case, num_episodes, orders)]


def _theorem(algorithm: Any, result: Any, case: str, num_episodes: int, orders: int) -> Finding:
    names = ("regret", "value_variance", "variance")
    regrets, total, optimal = (result.records[name][:, -1].astype(np.float64) for name in names)
    delta = float(algorithm.delta)
    bound = theorem_bound(algorithm.dim, num_episodes, algorithm.horizon, float(algorithm.lam), delta, total, optimal)
    times = float(np.median(bound)) / num_episodes
    statement = Statement(
        "theorem",
        "the regret theorem, constants of its proof",
        "thm:regret2",
        min(1.0, (4 * orders + 9) * delta),
        "holds" if times > 1 else "open",
        f"the bound is {times:.3g} times the largest possible regret" if times > 1 else "",
    )
    last, ratio = np.full_like(bound, num_episodes), regrets / bound
    peaks = np.stack([ratio, np.where(ratio > 1, last, 0), np.zeros_like(last), regrets, bound], axis=1)
    return finding(GROUP, case, statement, peaks)
