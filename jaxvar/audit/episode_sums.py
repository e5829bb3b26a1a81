"""The sums of the MDP appendix along the paths played: A_m, S_m, Q_0, R_0 and G, for three value functions.

The functions are the plan's V, what it is above the optimum (``V - V*``) and what its policy is below it
(``V* - V^pi``), in this order on axes of length 3; exponents ``2^m``, m = 0, 1, ..., are on axes of length ``orders``.
Written with the batch of seeds last.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import lowering
from jaxvar.audit import shadow as shadows
from jaxvar.audit.layers import off_width
from jaxvar.ridge import scales


class Sums(NamedTuple):
    """Over all episodes so far."""

    noise: jax.Array  # [3, orders]   of [P f^(2^m)](s, a) - f^(2^m)(s'), with its sign: A_m
    spread: jax.Array  # [3, orders]   of the conditional variances of f^(2^m): S_m
    optimal_spread: jax.Array  # []   of those of V*: Q_0
    policy_spread: jax.Array  # []   of those of V^pi
    bellman: jax.Array  # []   R_0
    grown: jax.Array  # []   G
    grown_noise: jax.Array  # []   of V(s') - [P V](s, a) in the episodes that G counts
    kept_noise: jax.Array  # []   of [P V](s, a) - V(s') where I_h is 1
    luck: jax.Array  # []   of an episode's rewards minus V^pi(s_1): I_1
    regret: jax.Array  # []


class Worst(NamedTuple):
    """The worst of one episode's steps."""

    off: jax.Array  # [layers]   see ``layers.off_width``
    weight: jax.Array  # [layers]   the largest
    learned: jax.Array  # [layers]   bool
    descent: jax.Array  # []   the largest [P V](s, a) / V(s)
    excess: jax.Array  # [layers]   the largest Bellman error with I_h = 1, by the layer that learned


def no_sums(orders: int, dtype: Any) -> Sums:
    """Before the first episode."""
    table, zero = jnp.zeros((3, orders), dtype), jnp.zeros((), dtype)
    return Sums(table, table, *(zero,) * 8)


def follow_episode(
    sums: Sums,
    shadow: shadows.Shadow,
    event: Any,
    instance: Any,
    optimal: jax.Array,  # [H + 1, S]
    played: jax.Array,  # [H + 1, S]
) -> tuple[Sums, shadows.Shadow, Worst]:
    """After one more episode."""
    value, visits = event.plan.value, event.visits
    functions = jnp.stack(jnp.broadcast_arrays(value, value - optimal, optimal - played, optimal, played))
    num_states, num_actions = instance.reward.shape[:2]
    orders = sums.noise.shape[1]
    flat = num_states * num_actions
    rows = instance.transition.reshape(flat, *instance.transition.shape[2:])
    phi = instance.phi.reshape(flat, *instance.phi.shape[2:])
    rewards = instance.reward.reshape(flat, *instance.reward.shape[2:])
    q = scales(shadow.count.shape[0], shadow.count.dtype)
    threshold = np.log(4.0)
    zero, none = jnp.zeros_like(event.regret), jnp.zeros_like(shadow.count)

    def step(carry: Any, given: Any) -> tuple[Any, None]:
        sums, shadow, worst, growth, noise_here, _ = carry
        visit, layer, weight, here, following = given
        pair = visit.state * num_actions + visit.action
        row, reward = lowering.take(rows, pair), lowering.take(rewards, pair)
        feature = jnp.sum(lowering.take(phi, pair) * following[0][:, None], axis=0)
        powers = _powers(following[:3], orders)
        mean = jnp.sum(row[None, None] * powers, axis=2)
        after = _at(powers, visit.next_state)
        centred = powers - mean[:, :, None]
        spread = jnp.sum(row[None, None] * centred * centred, axis=2)
        other_mean = jnp.sum(row[None] * following[3:], axis=1)
        other = jnp.sum(row[None] * (following[3:] - other_mean[:, None]) ** 2, axis=1)

        kept = jnp.all(growth <= threshold, axis=0)  # I_h: before this step's update
        now = lowering.take(here[0], visit.state)
        error = jnp.where(kept, jnp.maximum(now - reward - mean[0, 0], 0), 0)
        noise = mean[0, 0] - after[0, 0]
        target = after[0, 0]
        learns = lowering.is_layer(none.shape[0], layer)
        shadow, width2 = shadows.follow(shadow, layer, feature, weight, target, -noise, spread[0, 0])
        worst = Worst(
            off=jnp.maximum(worst.off, off_width(width2, q, learns)),
            weight=jnp.maximum(worst.weight, jnp.where(learns, weight[None], 0)),
            learned=worst.learned | learns,
            descent=jnp.maximum(worst.descent, mean[0, 0] / (now + 1e-12)),
            excess=jnp.maximum(worst.excess, jnp.where(learns, error[None], 0)),
        )
        sums = sums._replace(
            noise=sums.noise + (mean - after),
            spread=sums.spread + spread,
            optimal_spread=sums.optimal_spread + other[0],
            policy_spread=sums.policy_spread + other[1],
            bellman=sums.bellman + error,
            kept_noise=sums.kept_noise + jnp.where(kept, noise, 0),
            luck=sums.luck + reward,
        )
        growth = growth + jnp.where(learns, jnp.log1p(width2)[None], 0)
        return (sums, shadow, worst, growth, noise_here + noise, kept), None

    worst = Worst(none, none, none > 0, zero, none)
    stages = functions.shape[1] - 1
    here, following = functions[:, :-1], functions[:, 1:]
    by_stage = (visits, event.layer, event.weight, jnp.moveaxis(here, 1, 0), jnp.moveaxis(following, 1, 0))
    start = (sums, shadow, worst, none, zero, zero == 0)
    (new, shadow, worst, _, noise_here, kept), _ = jax.lax.scan(step, start, by_stage, length=stages)
    first = lowering.take(played[0], visits.state[0])
    grew = jnp.where(kept, zero, 1)  # 1 - I_H
    new = new._replace(
        grown=sums.grown + grew,
        grown_noise=sums.grown_noise - grew * noise_here,
        luck=new.luck - first,
        regret=sums.regret + event.regret,
    )
    return new, shadow, worst


def _powers(functions: jax.Array, orders: int) -> jax.Array:
    """``f^(2^m)`` of ``functions [3, S]``: ``[3, orders, S]``."""
    powers = [functions]
    for _ in range(orders - 1):
        powers.append(powers[-1] * powers[-1])
    return jnp.stack(powers, axis=1)


def _at(powers: jax.Array, state: jax.Array) -> jax.Array:
    """``powers [3, orders, S]`` in a state ``[]``: ``[3, orders]``."""
    return lowering.take(jnp.moveaxis(powers, 2, 0), state)
