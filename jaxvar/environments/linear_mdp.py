r"""Linear MDPs with finitely many states, drawn anew per seed or given by their tables.

    P(s' | s, a) = <phi(s, a), mu(s')>

with features phi(s, a) that are known and d measures mu that are not. Features and measures are distributions here, so
that every choice of them makes a Markov decision process: from (s, a) a coordinate i is drawn by phi(s, a), then the
next state by the measure i.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import parameters, random
from jaxvar.environments.explicit_mdp import check_distribution, check_reward, initial_distribution, initial_state
from jaxvar.environments.interface import Drawn
from jaxvar.environments.random_mdp import LEAST_CONCENTRATION, dirichlet, model_keys
from jaxvar.lowering import combine
from jaxvar.parameters import MAX_HORIZON, Number, count, factory, number, part, pytree


class LinearMdpInstance(NamedTuple):
    """One linear MDP: ``transition`` is linear in ``features``, and ``<phi, theta_star>`` as in every mixture."""

    phi: jax.Array  # [S, A, S, d S]
    reward: jax.Array  # [S, A]
    theta_star: jax.Array  # [d S]
    transition: jax.Array  # [S, A, S]
    initial: jax.Array  # [S]   the distribution of an episode's first state
    features: jax.Array  # [S, A, d]


@pytree
class LinearMdp:
    r"""A linear MDP, :math:`P(s' | s, a) = \sum_{i \le d} \phi_i(s, a)\,\mu_i(s')`, with features on the simplex.

    ``instance.features`` holds :math:`\phi`, which algorithms for linear MDPs are told; no feature is longer than 1,
    and the measures have :math:`|\mu(S)| = \sqrt d`, as these assume. The same problem is a linear mixture
    of dimension d S, which algorithms for mixtures play with the same knowledge, and a table, for those that count:

    .. math:: \phi(s' | s, a) = \phi(s, a) \otimes e_{s'} / \sqrt S, \qquad \theta^* = \sqrt S\,(\mu_1, \dots, \mu_d)

    With this scale :math:`|\phi_V| \le 1` for V in [0, 1], and :math:`|\theta^*| \le \sqrt{d S}`, which is
    ``norm_bound``. ``dim`` is d S; d itself is called ``rank``, since the matrix of transitions has no larger one.

    References:
      Jin, Yang, Wang, Jordan (2020), Provably efficient reinforcement learning with linear function approximation,
      Assumption A and Example 2.2 (features on the simplex).
    """

    num_states: int = count(kw_only=False, doc="S.")
    num_actions: int = count(kw_only=False, doc="A.")
    rank: int = count(kw_only=False, doc="d, the length of a feature and the number of measures.")
    horizon: int = count(high=MAX_HORIZON, kw_only=False, doc="H, steps per episode.")
    reward: Any = part(
        Drawn.or_given("linear", "dense"),
        default="linear",
        doc="``linear`` (in the features, by weights uniform in [0, 1] / H), ``dense`` (uniform in [0, 1] / H), or an "
        "array ``[S, A]`` of which no path of H steps collects more than 1.",
    )
    features: Any = part(
        Drawn.or_given("dirichlet", rank=3),
        default="dirichlet",
        doc="``dirichlet``, or an array ``[S, A, d]`` whose rows are distributions.",
    )
    measures: Any = part(
        Drawn.or_given("dirichlet"),
        default="dirichlet",
        doc="``dirichlet``, or an array ``[d, S]`` whose rows are distributions.",
    )
    feature_concentration: Number = number(
        at_least=LEAST_CONCENTRATION,
        default=0.3,
        doc="of the Dirichlet law of a drawn feature. Towards 0 a feature is one of d unit vectors: pairs fall into d "
        "groups that behave alike.",
    )
    concentration: Number = number(
        at_least=LEAST_CONCENTRATION,
        default=0.1,
        doc="of the Dirichlet law of a drawn measure. Towards 0 a measure becomes one state.",
    )
    initial: Any = initial_state()
    model_seed: int | None = count(
        low=0, high=2**32 - 1, default=None, doc="a number draws one model for all seeds; otherwise each has its own."
    )

    @property
    def dim(self) -> int:
        """Length of a feature of the mixture, d S."""
        return self.rank * self.num_states

    @property
    def norm_bound(self) -> float:
        """``sqrt(d S)``: no theta* is longer."""
        return math.sqrt(self.dim)

    def check(self) -> None:
        """Refuse tables that do not fit the sizes or hold no distributions, and total rewards above 1."""
        largest = max(("num_states", "num_actions", "rank"), key=lambda name: int(getattr(self, name)))
        shape = (self.num_states, self.num_actions)
        parameters.check_table(largest, getattr(self, largest), (*shape, self.num_states, self.dim))
        features, measures = self.features, self.measures
        if not isinstance(features, Drawn):
            parameters.check_array("features", features, (*shape, self.rank))
            for s, a in () if parameters.is_traced(features) else np.ndindex(shape):
                check_distribution(f"features of state {s}, action {a}", np.asarray(features[s, a]), "coordinate")
        if not isinstance(measures, Drawn):
            parameters.check_array("measures", measures, (self.rank, self.num_states))
            for i in range(0 if parameters.is_traced(measures) else self.rank):
                check_distribution(f"measures[{i}]", np.asarray(measures[i]), "state")
        if not isinstance(self.reward, Drawn):
            parameters.check_array("reward", self.reward, shape)
            if not parameters.is_traced(self.reward):
                reached = np.ones((*shape, self.num_states))  # where something is drawn, any state may follow any other
                if not any(isinstance(x, Drawn) or parameters.is_traced(x) for x in (features, measures)):
                    reached = np.asarray(features, float) @ np.asarray(measures, float)
                check_reward(np.asarray(self.reward, float), reached, self.horizon)
        self.__dict__["initial"] = initial_distribution(self.initial, self.num_states)

    def init(self, key: jax.Array) -> LinearMdpInstance:
        """Draw features, measures and rewards where they are not given."""
        k_features, k_measures, k_rewards = model_keys(key, self.model_seed)
        shape, num_states = (self.num_states, self.num_actions), self.num_states
        features, measures = self.features, self.measures
        if isinstance(features, Drawn):
            features = dirichlet((k_features, self.feature_concentration, (*shape, self.rank)))[0]
        if isinstance(measures, Drawn):
            measures = dirichlet((k_measures, self.concentration, (self.rank, num_states)))[0]
        features, measures = jnp.asarray(features), jnp.asarray(measures)
        by_coordinate, scale = jnp.moveaxis(features, 2, 0), np.asarray(math.sqrt(num_states), features.dtype)

        reward = self.reward
        if isinstance(reward, Drawn):
            words = random.bits(k_rewards, (self.rank,) if reward.law == "linear" else shape)
            reward = random.uniform(words, features.dtype) / self.horizon
            if self.reward.law == "linear":
                reward = combine(by_coordinate, reward[:, None, None])
        each_next = jnp.eye(num_states, dtype=features.dtype)[None, None, :, None]
        phi = (features[:, :, None, :, None] * each_next).reshape(*shape, num_states, self.dim) / scale
        return LinearMdpInstance(
            phi=phi,
            reward=jnp.asarray(reward),
            theta_star=measures.reshape(-1) * scale,
            transition=combine(by_coordinate[..., None], measures[:, None, None]),
            initial=jnp.asarray(self.initial),
            features=features,
        )


linear_mdp = factory(LinearMdp)
