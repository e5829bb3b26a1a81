"""UCRL-AVE in linear mixture MDPs: confidence, optimism, the appendix's sums and the regret theorem.

Layers are counted from 1 and stages from 0. What the paper says on an event is judged only while it has held.

The sums are those of the MDP appendix along the paths played: A_m, S_m, Q_0, R_0 and G, for three value functions. The
functions are the plan's V, what it is above the optimum (``V - V*``) and what its policy is below it
(``V* - V^pi``), in this order on axes of length 3; exponents ``2^m``, m = 0, 1, ..., are on axes of length ``orders``.
Written with the batch of seeds last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import lowering, planning
from jaxvar.algorithms.interface import Model
from jaxvar.algorithms.ucrl_ave import UcrlAve
from jaxvar.constants import RadiusConstants
from jaxvar.environments.interface import EpisodicEnvironment, MdpInstance
from jaxvar.episodes import Visit
from jaxvar.parameters import float_dtype, pytree, static
from jaxvar.records import EpisodeEvent, regret, value_variance, variance
from jaxvar.ridge import scales
from jaxvar.simulate import simulate
from jaxvar.theory import recursion
from jaxvar.theory import reference_ridge as layers
from jaxvar.theory.recursion import Sums
from jaxvar.theory.running_max import (
    Check,
    RunningMax,
    as_rows,
    init_running_max,
    judge_simulation,
    single_check,
    update_running_max,
)
from jaxvar.theory.statement import Array, Finding, load_statements

GROUP = "UCRL-AVE"


class Worst(NamedTuple):
    """The worst of one episode's steps."""

    off: jax.Array  # [layers]   see ``reference_ridge.off_width``
    weight: jax.Array  # [layers]   the largest
    learned: jax.Array  # [layers]   bool
    descent: jax.Array  # []   the largest [P V](s, a) / V(s)
    excess: jax.Array  # [layers]   the largest Bellman error with I_h = 1, by the layer that learned


class Memory(NamedTuple):
    """Memory of the recorder for one seed."""

    optimal: jax.Array  # [H + 1, S]   V*
    reference: layers.Reference
    beta: jax.Array  # [layers]   the algorithm's radii in the coming episode
    valid: jax.Array  # []   bool, whether they have held, those of the coming episode included
    sums: Sums
    running: RunningMax


@pytree
class EpisodeAudit:
    """A recorder of the running maxima of all statements, ``[statements, 5]``."""

    radii: dict[str, RadiusConstants]  # that are judged, by name
    keys: tuple[str, ...] = static()  # of statements
    orders: int = static()  # M

    name = "audit"

    def init(self, algorithm: UcrlAve, instance: MdpInstance) -> Memory:
        """Return the memory before the first episode."""
        if not hasattr(algorithm, "confidence") or not hasattr(algorithm, "horizon"):
            raise ValueError("the audit needs UCRL-AVE in a linear mixture MDP")
        dtype, horizon = float_dtype(), algorithm.horizon
        model = Model(phi=instance.phi, reward=instance.reward, horizon=horizon)
        beta = algorithm.confidence(algorithm.init(model)).beta_hat
        table, zero = jnp.zeros((3, self.orders + 2), dtype), jnp.zeros((), dtype)
        return Memory(
            optimal=planning.optimal_values(instance.transition, instance.reward, horizon).value,
            reference=layers.init_reference(algorithm.dim, algorithm.capacity, algorithm.lam, dtype),
            beta=beta,
            valid=layers.starts_inside(beta, instance.theta_star, algorithm.lam),
            sums=Sums(table, table, *(zero,) * 8),
            running=init_running_max(len(self.keys), dtype),
        )

    def update(self, memory: Memory, event: EpisodeEvent, algorithm: UcrlAve, instance: MdpInstance) -> Memory:
        """Return the memory after one more episode."""
        beta = algorithm.confidence(event.state).beta_hat
        sums, reference, worst = follow_episode(memory, event, instance)
        lam, delta = jnp.asarray(algorithm.lam), jnp.asarray(algorithm.delta)
        horizon, num_layers = algorithm.horizon, algorithm.num_layers
        seen = layers.look(reference, instance.theta_star, lam[None])
        k = event.round.astype(seen.error.dtype)
        log = jnp.log(4 * horizon**2 * num_layers / delta) + 2 * jnp.log(k + 1)  # of the coming episode
        one = jnp.ones_like(log)
        stored = np.arange(1.0, beta.shape[0] + 1).reshape(-1, *(1,) * (beta.ndim - 1)) <= num_layers[None]
        everywhere = jnp.broadcast_to(stored, beta.shape)
        betas = {n: layers.radii_of(seen, c, one, log, log) for n, c in self.radii.items()}
        root, lead = jnp.sqrt(seen.q), log[None]
        additive = (8 * lead + 32 * seen.q, 28 / 3 * lead + 16 * (6 * root * lead + root) ** 2)
        valid = memory.valid & layers.inside(seen.error, beta, everywhere)
        running = update_running_max(
            memory.running,
            self.keys,
            {
                **layers.confidence(seen, everywhere, betas, one, (log, log), additive, 1),
                **layers.design(seen, worst.learned, worst.weight, worst.off, k * horizon, lam[None]),
                **_plan(memory, event, worst, seen),
                **recursion.inequalities(sums, memory.valid, k, algorithm),
            },
            event.round,
        )
        return Memory(memory.optimal, reference, beta, valid, sums, running)

    def read(self, memory: Memory) -> jax.Array:
        """Return the rows of the running maximum, [statements, 5]."""
        return as_rows(memory.running)


def _plan(memory: Memory, event: EpisodeEvent, worst: Worst, seen: layers.Seen) -> dict[str, Check]:
    """Check the episode's plan, which was made with the radii from before it."""
    short = jnp.max(memory.optimal / (event.plan.value + 1e-9), axis=(0, 1))  # 0 / 0 after the last stage
    one = jnp.ones_like(short)
    before, has_before = layers.radius_before(memory.beta)
    bound = jnp.minimum(2, 8 * jnp.sqrt(seen.q) * before)
    return {
        "optimism": single_check(short, one),
        "optimism-given": single_check(short, one, memory.valid),
        "descent": single_check(worst.descent, one, memory.valid),
        "bellman-error": Check(worst.excess, bound, worst.learned & has_before & memory.valid[None]),
    }


Stage = tuple[Visit, jax.Array, jax.Array, jax.Array, jax.Array]  # and layer, weight, values here and after it
Carry = tuple[Sums, layers.Reference, Worst, jax.Array, jax.Array, jax.Array]


def follow_episode(memory: Memory, event: EpisodeEvent, instance: MdpInstance) -> tuple[Sums, layers.Reference, Worst]:
    """Return sums and reference after one more episode, and the worst of its steps."""
    sums, reference, optimal = memory.sums, memory.reference, memory.optimal
    value, visits = event.plan.value, event.visits
    played = planning.policy_values(instance.transition, instance.reward, event.plan.policy)
    functions = jnp.stack(jnp.broadcast_arrays(value, value - optimal, optimal - played, optimal, played))
    num_states, num_actions = instance.reward.shape[:2]
    orders = sums.noise.shape[1]
    flat = num_states * num_actions
    tables = (instance.transition, instance.phi, instance.reward)
    rows, phi, rewards = (table.reshape(flat, *table.shape[2:]) for table in tables)
    q = scales(reference.count.shape[0], reference.count.dtype)
    threshold = np.log(4.0)
    zero, none = jnp.zeros_like(event.regret), jnp.zeros_like(reference.count)

    def step(carry: Carry, given: Stage) -> tuple[Carry, None]:
        sums, reference, worst, growth, noise_here, _ = carry
        visit, layer, weight, here, following = given
        pair = visit.state * num_actions + visit.action
        row, reward = lowering.take(rows, pair), lowering.take(rewards, pair)
        feature = jnp.sum(lowering.take(phi, pair) * following[0][:, None], axis=0)
        each = [following[:3]]  # f^(2^m) for m = 0, 1, ...
        while len(each) < orders:
            each.append(each[-1] * each[-1])
        powers = jnp.stack(each, axis=1)
        mean = jnp.sum(row[None, None] * powers, axis=2)
        after = lowering.take(jnp.moveaxis(powers, 2, 0), visit.next_state)
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
        reference, width2 = layers.learn(reference, layer, feature, weight, target, -noise, spread[0, 0])
        worst = Worst(
            off=jnp.maximum(worst.off, layers.off_width(width2, q, learns)),
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
        return (sums, reference, worst, growth, noise_here + noise, kept), None

    worst = Worst(none, none, none > 0, zero, none)
    stages = functions.shape[1] - 1
    here, following = functions[:, :-1], functions[:, 1:]
    by_stage = (visits, event.layer, event.weight, jnp.moveaxis(here, 1, 0), jnp.moveaxis(following, 1, 0))
    start = (sums, reference, worst, none, zero, zero == 0)
    (new, reference, worst, _, noise_here, kept), _ = jax.lax.scan(step, start, by_stage, length=stages)
    first = lowering.take(played[0], visits.state[0])
    grew = jnp.where(kept, zero, 1)  # 1 - I_H
    new = new._replace(
        grown=sums.grown + grew,
        grown_noise=sums.grown_noise - grew * noise_here,
        luck=new.luck - first,
        regret=sums.regret + event.regret,
    )
    return new, reference, worst


def theorem_bound(
    dim: int, num_episodes: int, horizon: int, lam: float, delta: float, total: Array, optimal: Array
) -> Array:
    """Return the regret theorem's bound with the constants of its proof, ``lam = 1 / B^2`` (label ``thm:regret2``).

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
    algorithm: UcrlAve,
    environment: EpisodicEnvironment,
    *,
    case: str,
    key: jax.Array,
    num_seeds: int,
    num_episodes: int,
    radii: Mapping[str, RadiusConstants] | None = None,
    is_proved: bool = True,
) -> list[Finding]:
    """Play ``num_seeds`` seeds and judge every statement.

    ``radii`` are judged, and that of ``algorithm`` is played with; ``is_proved`` says whether it has a proof.
    """
    radii = layers.judged("episodes") if radii is None else dict(radii)
    delta, lam, dim, horizon = float(algorithm.delta), float(algorithm.lam), algorithm.dim, algorithm.horizon
    orders = recursion.orders(num_episodes, horizon)
    made = load_statements(GROUP, delta, radii=radii, is_proved=is_proved, orders=orders)
    recorder = EpisodeAudit(radii=radii, keys=tuple(s.key for s in made[:-1]), orders=orders)
    record = (recorder, regret(), variance(), value_variance())
    result = simulate(
        algorithm, environment, key=key, num_seeds=num_seeds, num_episodes=num_episodes, record_at=1, recorders=record
    )
    result.raise_if_failed()
    total, optimal = (result.records[name][:, -1].astype(np.float64) for name in ("value_variance", "variance"))
    promised = theorem_bound(dim, num_episodes, horizon, lam, delta, total, optimal)
    return judge_simulation(result, GROUP, case, made, promised, largest=num_episodes)
