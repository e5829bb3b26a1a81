"""SAVE with arms that never change: every lemma on the way to its regret theorem, followed round by round.

Layers are counted from 1. Statements that the paper makes on an event are judged only while the event has held: they
must then hold in every seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import lowering
from jaxvar.algorithms.save import FixedSave, Save
from jaxvar.constants import RadiusConstants
from jaxvar.environments.linear_bandit import LinearBandit, LinearInstance
from jaxvar.parameters import float_dtype, pytree, static
from jaxvar.records import Event, regret, variance
from jaxvar.simulate import simulate
from jaxvar.theory import reference_ridge as layers
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

GROUP = "SAVE"


class Memory(NamedTuple):
    """Memory of the recorder for one seed."""

    reference: layers.Reference
    regret: jax.Array  # [layers]   of the rounds that ended in each
    active: jax.Array  # [num_arms]   before the coming round
    valid: jax.Array  # []   bool, whether the algorithm's own radii have held so far
    running: RunningMax


@pytree
class BanditAudit:
    """A recorder of the running maxima of all statements, ``[statements, 5]``."""

    radii: dict[str, RadiusConstants]  # that are judged, by name
    keys: tuple[str, ...] = static()  # of statements

    name = "audit"

    def init(self, algorithm: FixedSave, instance: LinearInstance) -> Memory:
        """Return the memory before the first round."""
        if not hasattr(algorithm, "save") or instance.arms is None:
            raise ValueError("the audit needs SAVE with arms that never change, of a linear bandit")
        dtype, num_arms = float_dtype(), instance.arms.shape[0]
        reference = layers.init_reference(algorithm.save.dim, algorithm.capacity, 1, dtype)
        zero = jnp.zeros(algorithm.capacity, dtype)
        valid = layers.starts_inside(algorithm.init().beta_hat, instance.theta_star, 1.0)
        return Memory(reference, zero, jnp.ones(num_arms, bool), valid, init_running_max(len(self.keys), dtype))

    def update(self, memory: Memory, event: Event, algorithm: FixedSave, instance: LinearInstance) -> Memory:
        """Return the memory after one more round."""
        save, radii = algorithm.save, self.radii
        noise = event.reward - event.mean
        x = lowering.take(jnp.asarray(instance.arms), event.action)
        given = (event.layer, x, event.weight, event.reward, noise, event.noise_var)
        reference, width2 = layers.learn(memory.reference, *given)
        seen = layers.look(reference, instance.theta_star, 1)
        learns = lowering.is_layer(reference.count.shape[0], event.layer)
        k = event.round.astype(noise.dtype)
        noise_bound = jnp.asarray(save.noise_bound)
        factor = jnp.log(4 * save.num_layers / save.delta)
        logs = (factor + 2 * jnp.log(k), factor + 2 * jnp.log(k + 1))
        shifted = {n: factor + 2 * jnp.log(k + c.log_shift) for n, c in radii.items()}
        betas = {n: layers.radii_of(seen, c, noise_bound, logs[0], shifted[n]) for n, c in radii.items()}
        lead = (noise_bound**2 * logs[1])[None]
        additive = (6 * lead + 16 * seen.q, 9.62 * lead + 128 * seen.q)

        off = layers.off_width(width2, seen.q, learns)
        beta = event.state.beta_hat
        valid = memory.valid & layers.inside(seen.error, beta, learns)
        before, has_before = layers.radius_before(beta)
        follows = learns & has_before
        now = event.regret[None] * jnp.ones_like(before)
        one_round = 8 * jnp.sqrt(seen.q) * before
        volume = 2 * x.shape[0] * jnp.log1p(k[None] / (x.shape[0] * seen.q))
        by_layer = memory.regret + jnp.where(learns, event.regret[None], 0)
        running = update_running_max(
            memory.running,
            self.keys,
            {
                **layers.confidence(seen, learns, betas, noise_bound, logs, additive, 2),
                **layers.design(seen, learns, jnp.where(learns, event.weight[None], 0), off, k, 1),
                **_best_arm(memory, event, instance, seen, learns, valid),
                "round-regret": Check(now, one_round, follows & memory.valid[None]),
                "layer-regret": Check(by_layer, one_round / seen.q * volume, follows & valid[None]),
            },
            event.round,
        )
        return Memory(reference, by_layer, event.state.active, valid, running)

    def read(self, memory: Memory) -> jax.Array:
        """Return the rows of the running maximum, [statements, 5]."""
        return as_rows(memory.running)


def _best_arm(
    memory: Memory, event: Event, instance: LinearInstance, seen: layers.Seen, learns: jax.Array, valid: jax.Array
) -> dict[str, Check]:
    """Check how far the best arm's estimate is behind when a layer is passed, by what line 12 allows.

    The first check is of the statement as it is, the second of the statement given the radii.
    """
    mean = jnp.asarray(instance.mean)
    best = lowering.lowest(mean >= jnp.max(mean, axis=0)[None])
    here = jnp.sum(jnp.where(learns[:, None], seen.theta_hat, 0), axis=0)
    pred = lowering.inner(jnp.asarray(instance.arms), here)
    ahead = jnp.max(jnp.where(memory.active, pred, -jnp.inf), axis=0)
    behind = ahead - lowering.take(pred, best)
    allowed = jnp.sum(jnp.where(learns, 2 * jnp.sqrt(seen.q) * event.state.beta_hat, 0), axis=0)
    survives = lowering.take(event.state.active.astype(pred.dtype), best) > 0
    # An arm that is gone is a failure, whatever the reference's estimates say.
    behind = jnp.where(survives, behind, jnp.maximum(behind, 2 * allowed))
    passed = (event.layer > 0) & (event.state.number != event.layer)
    allowed = jnp.where(passed, allowed, 1)
    return {
        "best-arm": single_check(behind, allowed, passed),
        "best-arm-given": single_check(behind, allowed, passed & valid),
    }


def theorem_bound(dim: int, num_rounds: int, noise_bound: float, delta: float, total_variance: float | Array) -> Array:
    """Return the regret theorem's bound with the constants of its proof (label ``thm:regret1``).

    Arms must have a norm of at most one. ``total_variance`` is ``sum sigma_k^2`` of the rounds played. Layers up to
    ``l*`` pay 2 a round, all others the regret lemma with the largest radius that the second inequality of
    ``lemma:varest`` allows.
    """
    alpha = 1 / (noise_bound * num_rounds**1.5)
    num_layers = max(1, math.ceil(-math.log2(alpha) - 1e-9))
    log = math.log(4 * (num_rounds + 1) ** 2 * num_layers / delta)
    few = math.ceil(0.5 * math.log2(log)) + 8
    total = np.zeros_like(np.asarray(total_variance, float))
    largest = np.zeros_like(total)
    for number in range(1, num_layers + 1):
        q = 4.0**-number
        volume = 2 * dim * math.log1p(num_rounds / (dim * q))
        if number <= few:
            total = total + 2 / q * volume
            continue
        before = 4 * q
        emp = 1.5 * np.asarray(total_variance) + 7 / 3 * noise_bound**2 * log + before
        inside = 8 * emp + 6 * noise_bound**2 * log + 16 * before
        beta = math.sqrt(before) * (16 * np.sqrt(inside * log) + 6 * noise_bound * log + 2)
        largest = np.maximum(largest, beta)
        total = total + 8 / math.sqrt(q) * beta * volume
    return np.asarray(total + 2 * alpha * num_rounds * largest)


def audit_save(
    algorithm: Save,
    environment: LinearBandit,
    *,
    case: str,
    key: jax.Array,
    num_seeds: int,
    num_rounds: int,
    radii: Mapping[str, RadiusConstants] | None = None,
    is_proved: bool = True,
) -> list[Finding]:
    """Play ``num_seeds`` seeds and judge every statement.

    ``radii`` are judged, and that of ``algorithm`` is played with; ``is_proved`` says whether it has a proof.
    """
    radii = layers.judged("bandit") if radii is None else dict(radii)
    delta, bound = float(algorithm.delta), float(algorithm.noise_bound)
    made = load_statements(GROUP, delta, radii=radii, is_proved=is_proved)
    recorders = (BanditAudit(radii=radii, keys=tuple(s.key for s in made[:-1])), regret(), variance())
    result = simulate(
        algorithm, environment, key=key, num_seeds=num_seeds, num_rounds=num_rounds, record_at=1, recorders=recorders
    )
    result.raise_if_failed()
    total = result.records["variance"][:, -1].astype(np.float64)
    promised = theorem_bound(algorithm.dim, num_rounds, bound, delta, total)
    return judge_simulation(result, GROUP, case, made, promised, largest=2 * num_rounds)
