r"""Tabular algorithms, which count transitions and know no features: MVP and UCBVI.

They plan by optimistic backward induction on the frequencies :math:`\hat P(s' | s, a)` that they have seen, with a
bonus for each pair (s, a) that shrinks with its number of visits N:

    Q_h(s, a) = min(r(s, a) + [P_hat V_{h+1}](s, a) + c b_h(s, a), v)        V_h(s) = max_a Q_h(s, a)

A pair that was never seen has the largest value, v. Rewards are deterministic and known in every problem here, so that
the papers' bonus for estimated rewards is left out. Of a problem the algorithms read the rewards, the horizon and the
numbers of states and actions. Stages are counted from 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxvar import planning
from jaxvar.algorithms.interface import Model, Step
from jaxvar.algorithms.optimistic_plan import Greedy
from jaxvar.claims import Claim
from jaxvar.parameters import Number, choice, factory, flag, number, pytree

CLAIMS = {
    "mvp": Claim(
        "MVP",
        "Zhang, Ji, Du 2021; Zhang, Chen, Lee, Du 2024",
        "sqrt(S A K) + S^2 A",
        section="tabular MDP",
        constants="read",
        assumption="homogeneous, rewards add up to at most 1",
        deterministic="constant, of a variant",  # Zhou, Zhang, Du 2023
    ),
    "ucbvi": Claim(
        "UCBVI",
        "Azar, Osband, Munos 2017",
        "H sqrt(S A K) + sqrt(H^3 K) + H^2 S^2 A",
        section="tabular MDP",
        constants="reconstructed",
        assumption="homogeneous, rewards add up to at most H",
    ),
}
Bonus = Callable[[jax.Array, jax.Array, jax.Array, jax.Array], jax.Array]


class TabularPlan(NamedTuple):
    """The policy of an episode, and the optimistic values behind it."""

    q: jax.Array  # [H, S, A]
    value: jax.Array  # [H + 1, S]   the last is zero
    policy: jax.Array  # [H, S]   int32, actions


@pytree
class ValueIteration(Greedy):
    """Base of the algorithms that plan backwards from what they have seen of transitions."""

    num_episodes: Number = number(at_least=1, kw_only=False, doc="K, which sets the logarithm of the bonus.")
    delta: Number = number(above=0, below=1, default=0.01, doc="failure probability.")
    value_bound: Number = number(
        above=0, squared=True, default=1.0, doc="v, no value is larger: 1 where the total reward is at most 1."
    )

    def plan_by(
        self, look: Callable[..., jax.Array], model: Model, key: jax.Array | None, *given: jax.Array
    ) -> TabularPlan:
        """Plan an episode; without a key ties go to the lowest action.

        ``look`` returns Q of a stage, [S, A], from the next value [S], the stage and its entries of ``given [H, ...]``.
        """

        def back(
            value: jax.Array, here: tuple[jax.Array | None, tuple[jax.Array, ...]]
        ) -> tuple[jax.Array, tuple[jax.Array, jax.Array, jax.Array]]:
            q = look(value, *here[1])
            policy, value = self.greedy(q, here[0], self.value_bound)
            return value, (q, value, policy)

        end, stages = jnp.zeros(model.num_states, self.dtype), jnp.arange(model.horizon, dtype=jnp.int32)
        _, (q, value, policy) = lax.scan(back, end, (self.draws(model, key), (stages, *given)), reverse=True)
        return TabularPlan(q, planning.with_end(value), policy)


@pytree
class Tabular(ValueIteration):
    """Base of the algorithms that count transitions."""

    beta_scale: Number = number(
        at_least=0, default=1.0, doc="c, a multiplier of the bonus; 1 is the theorem, 0 is certainty equivalence."
    )
    monotone: bool = flag(
        default=True, doc="never raise a value of an earlier plan again: the least of all plans so far is taken."
    )

    def plan_by_counts(
        self, model: Model, counts: jax.Array, bonus: Bonus, least: jax.Array, key: jax.Array | None
    ) -> TabularPlan:
        """Plan an episode.

        Args:
          model: rewards and horizon.
          counts: transitions seen, int32 ``[H, S, A, S]``, or ``[1, S, A, S]`` where all stages share them.
          bonus: next value ``[S]``, frequencies ``[S, A, S]``, visits ``[S, A]`` (at least 1) and stage -> ``[S, A]``.
          least: no value is larger than this, ``[H, S, A]``.
          key: the episode's; without it ties go to the lowest action.
        """
        visits = jnp.sum(counts, axis=3, dtype=jnp.int32)
        at_least_one = jnp.maximum(visits, 1).astype(self.dtype)
        frequency = counts.astype(self.dtype) / at_least_one[..., None]

        def look(value: jax.Array, stage: jax.Array, most: jax.Array) -> jax.Array:
            group = jnp.minimum(stage, counts.shape[0] - 1)
            here, num = planning.at_stage(frequency, group), planning.at_stage(at_least_one, group)
            q = model.reward + planning.expectation(here, value) + self.beta_scale * bonus(value, here, num, stage)
            seen = planning.at_stage(visits, group) > 0
            return jnp.minimum(jnp.where(seen, q, self.value_bound), most)

        return self.plan_by(look, model, key, least)

    def largest_values(self, model: Model) -> jax.Array:
        """Return the value of every pair before anything is known, [H, S, A]."""
        shape = (model.horizon, model.num_states, model.num_actions)
        return jnp.full(shape, self.value_bound, self.dtype)

    def least_values(self, least: jax.Array, plan: TabularPlan, step: Step) -> jax.Array:
        """Return ``least [H, S, A]`` with the plan's values in the stage of a step, where values never rise again."""
        return planning.with_stage(least, step.stage, planning.at_stage(plan.q, step.stage)) if self.monotone else least


def visited(model: Model, step: Step) -> tuple[jax.Array, jax.Array]:
    """Return which pair a step visited, bool [S, A], and which transition it was, bool [S, A, S]."""
    state = np.arange(model.num_states, dtype=np.int32) == step.state
    action = np.arange(model.num_actions, dtype=np.int32) == step.action
    next_state = np.arange(model.num_states, dtype=np.int32) == step.next_state
    pair = state[:, None] & action[None]
    return pair, pair[:, :, None] & next_state[None, None]


class MvpState(NamedTuple):
    """State of MVP for one seed. There is one group of counts for each stage, or one for all."""

    visits: jax.Array  # [groups, S, A]   int32, all visits
    running: jax.Array  # [groups, S, A, S]   int32, the transitions counted for the next model
    frozen: jax.Array  # [groups, S, A, S]   int32, the transitions that plans use
    least: jax.Array  # [H, S, A]   no coming plan has a larger value


@pytree
class Mvp(Tabular):
    r"""MVP, monotonic value propagation: a model frozen until the visits of a pair double, and a variance bonus.

    .. math:: b_h(s, a) = \tfrac{460}9 \sqrt{\frac{\hat{\mathbb V} V_{h+1}\,\iota}{N}} + \tfrac{544}9 \frac{v\,\iota}N,
              \quad \iota = \log\frac{200\,S A H^2 K^2}\delta

    :math:`\hat{\mathbb V} V_{h+1}` is the variance of :math:`V_{h+1}` under the frozen frequencies of (s, a), and N the
    number of transitions these were made of. When the visits of a pair reach a power of two, its frequencies are made
    anew: of all its transitions, or of those since the power before. Values lie in [0, v].

    The original of 2021 is the default. The form of 2024 is ``samples="half", per_stage=True, monotone=False``. The
    bound that depends on the variance, and is constant in deterministic problems, was shown for a variant (Zhou, Zhang,
    Du 2023).

    References:
      Zhang, Ji, Du (2021), Is reinforcement learning more difficult than bandits? A near-optimal algorithm escaping the
      curse of horizon. Zhang, Chen, Lee, Du (2024), Settling the sample complexity of online reinforcement learning,
      for the constants.

    Deviations:
      One scale for all algorithms: values lie in [0, v] instead of [0, H]. Rewards are known, which drops the term of
      their variance. A pair that was never seen has the value v, in the form of 2024 too, where its frequencies are
      1 / S; with the printed constants that is the same. Plans are made anew in every episode; between two
      freezes they are the same. The tie rule is ours.
    """

    samples: str = choice(
        "all",
        "half",
        default="all",
        doc="the model is made of ``all`` transitions of a pair, or of the later ``half``.",
    )
    per_stage: bool = flag(
        default=False,
        doc="count in each stage apart, as published in 2024 for transitions that differ between stages; by default "
        "all stages share their counts, since they share their transitions.",
    )

    def init(self, model: Model) -> MvpState:
        """Return empty counts."""
        groups = model.horizon if self.per_stage else 1
        visits = jnp.zeros((groups, model.num_states, model.num_actions), jnp.int32)
        transitions = jnp.zeros((*visits.shape, model.num_states), jnp.int32)
        return MvpState(visits, transitions, transitions, self.largest_values(model))

    def plan(self, state: MvpState, model: Model, key: jax.Array | None = None) -> TabularPlan:
        """Plan the coming episode; without a key ties go to the lowest action."""
        sizes = 200 * model.num_states * model.num_actions * model.horizon**2
        log = math.log(sizes) + 2 * jnp.log(self.num_episodes) - jnp.log(self.delta)

        def bonus(value: jax.Array, frequency: jax.Array, visits: jax.Array, stage: jax.Array) -> jax.Array:
            variance = planning.conditional_variance(frequency, value)
            return 460 / 9 * jnp.sqrt(variance * log / visits) + 544 / 9 * self.value_bound * log / visits

        return self.plan_by_counts(model, state.frozen, bonus, state.least, key)

    def update(self, state: MvpState, model: Model, plan: TabularPlan, step: Step) -> MvpState:
        """Count a step, and make the model of its pair anew where its visits are a power of two."""
        group = step.stage if self.per_stage else jnp.zeros_like(step.stage)
        pair, transition = visited(model, step)
        visits = planning.at_stage(state.visits, group) + pair.astype(jnp.int32)
        running = planning.at_stage(state.running, group) + transition.astype(jnp.int32)
        doubled = (pair & (visits & (visits - 1) == 0))[:, :, None]
        frozen = jnp.where(doubled, running, planning.at_stage(state.frozen, group))
        if self.samples == "half":
            running = jnp.where(doubled, 0, running)
        return MvpState(
            visits=planning.with_stage(state.visits, group, visits),
            running=planning.with_stage(state.running, group, running),
            frozen=planning.with_stage(state.frozen, group, frozen),
            least=self.least_values(state.least, plan, step),
        )


class UcbviState(NamedTuple):
    """State of UCBVI for one seed. Plans are made of what it holds at the start of an episode."""

    counts: jax.Array  # [1, S, A, S]   int32, transitions in all stages
    reached: jax.Array  # [H, S]   int32, how often a state was reached by the step of a stage
    least: jax.Array  # [H, S, A]   no coming plan has a larger value


@pytree
class Ucbvi(Tabular):
    r"""UCBVI: value iteration on frequencies with a bonus, of Bernstein and Freedman or of Chernoff and Hoeffding.

    With :math:`L = \log(5 S A K H / \delta)` and N visits of (s, a), the bonus of ``mode="bf"`` is

    .. math:: b_h = \sqrt{\frac{8 L\, \hat{\mathbb V} V_{h+1}}N} + \frac{14 v L}{3 N}
              + \sqrt{\frac 8N \sum_{s'} \hat P(s' | s, a) \min\Big(\frac{10^4 v^2 H S^2 A L^2}{N'_{h+1}(s')}, v^2\Big)}

    where :math:`\hat{\mathbb V} V_{h+1}` is the variance of :math:`V_{h+1}` under the frequencies of (s, a), and
    :math:`N'_{h+1}(s')` counts the visits of s' in the next stage. That of ``mode="ch"`` is :math:`7 v L / \sqrt N`.

    References:
      Azar, Osband, Munos (2017), Minimax regret bounds for reinforcement learning, Algorithms 1 to 4.

    Deviations:
      The constants are reconstructed: those of ``bf`` agree with code by others, those of ``ch`` were checked against
      nothing. One scale for all algorithms: values lie in [0, v] instead of [0, H]. The last sum is left out in the
      last stage, whose next value is known to be zero. The tie rule is ours.
    """

    mode: str = choice("bf", "ch", default="bf", doc="the bonus: ``bf``, with variances, or ``ch``, without.")

    def init(self, model: Model) -> UcbviState:
        """Return empty counts."""
        counts = jnp.zeros((1, model.num_states, model.num_actions, model.num_states), jnp.int32)
        reached = jnp.zeros((model.horizon, model.num_states), jnp.int32)
        return UcbviState(counts, reached, self.largest_values(model))

    def plan(self, state: UcbviState, model: Model, key: jax.Array | None = None) -> TabularPlan:
        """Plan the coming episode; without a key ties go to the lowest action."""
        sizes = 5 * model.num_states * model.num_actions * model.horizon
        log = math.log(sizes) + jnp.log(self.num_episodes) - jnp.log(self.delta)
        most = 1e4 * model.horizon * model.num_states**2 * model.num_actions * log**2
        unsure = jnp.minimum(most / jnp.maximum(state.reached, 1).astype(self.dtype), 1)
        unsure = unsure.at[-1].set(0) * self.value_bound**2

        def bonus(value: jax.Array, frequency: jax.Array, visits: jax.Array, stage: jax.Array) -> jax.Array:
            if self.mode == "ch":
                return 7 * self.value_bound * log / jnp.sqrt(visits)
            variance = planning.conditional_variance(frequency, value)
            correction = planning.expectation(frequency, planning.at_stage(unsure, stage))
            bernstein = jnp.sqrt(8 * log * variance / visits) + 14 / 3 * self.value_bound * log / visits
            return bernstein + jnp.sqrt(8 * correction / visits)

        return self.plan_by_counts(model, state.counts, bonus, state.least, key)

    def update(self, state: UcbviState, model: Model, plan: TabularPlan, step: Step) -> UcbviState:
        """Count a step."""
        _, transition = visited(model, step)
        arrived = (np.arange(model.num_states, dtype=np.int32) == step.next_state).astype(jnp.int32)
        reached = planning.at_stage(state.reached, step.stage) + arrived
        return UcbviState(
            counts=state.counts + transition[None].astype(jnp.int32),
            reached=planning.with_stage(state.reached, step.stage, reached),
            least=self.least_values(state.least, plan, step),
        )


mvp = factory(Mvp)
ucbvi = factory(Ucbvi)
