"""Random linear mixture MDPs: mixtures of base kernels, and a family graded by its variance. Drawn anew per seed."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import parameters, planning, random
from jaxvar.environments.explicit_mdp import initial_distribution
from jaxvar.environments.interface import MdpInstance
from jaxvar.environments.model_checks import check_distributions, check_reward
from jaxvar.parameters import count, leaf, number, pytree, static

REWARDS = ("dense", "sparse")
_LEAST_CONCENTRATION = 1e-30  # gamma draws of a smaller shape are NaN in float32


@pytree
class MixtureMdp:
    """A random mixture of base kernels; built by :func:`mixture_mdp` or :func:`graded_mdp`."""

    concentration: Any = number(at_least=_LEAST_CONCENTRATION, doc="of the base kernels' rows.")
    weight_concentration: Any = number(
        at_least=_LEAST_CONCENTRATION, default=None, doc="of the mixture's weights; None for a single base kernel."
    )
    mix: Any = number(
        at_least=0,
        at_most=1,
        default=None,
        doc="q, how much of the diffuse kernel; None where rows are drawn as they are.",
    )
    given_reward: Any  # [S, A], or None to draw it
    initial: Any  # [S]
    num_states: int = count(doc="S.")
    num_actions: int = count(doc="A.")
    dim: int = count(doc="d, the number of base kernels.")
    horizon: int = count(doc="H, steps per episode.")
    reward_kind: str = static()
    model_seed: int | None = count(
        low=0, high=2**32 - 1, default=None, doc="a number draws one model for all seeds; otherwise each has its own."
    )

    @property
    def norm_bound(self) -> float:
        """``sqrt d``: no parameter drawn is longer."""
        return math.sqrt(self.dim)

    def init(self, key: jax.Array) -> MdpInstance:
        """Draw base kernels, weights and rewards."""
        if self.model_seed is not None:
            key = jax.random.key(self.model_seed)
        kernels, weights, rewards = (random.fold_in(key, i) for i in range(3))
        base = self._base_kernels(kernels)
        if self.weight_concentration is None:
            word = random.bits(random.key_words(weights), ())
            share = jax.nn.one_hot((word % np.uint32(self.dim)).astype(jnp.int32), self.dim, dtype=base.dtype)
        else:
            share = _dirichlet(weights, self.weight_concentration, (self.dim,))
        scale = np.asarray(math.sqrt(self.dim), base.dtype)
        phi, theta_star = jnp.moveaxis(base, 0, 3) / scale, share * scale
        reward = self._reward(rewards, base.dtype)
        return MdpInstance(phi, reward, theta_star, planning.mixture(phi, theta_star), jnp.asarray(self.initial))

    def _base_kernels(self, key: jax.Array) -> jax.Array:
        """Draw the base kernels, [d, S, A, S]."""
        shape = (self.dim, self.num_states, self.num_actions, self.num_states)
        base = _dirichlet(key, self.concentration, shape)
        if self.mix is not None:  # deterministic rows, blurred by diffuse ones
            target = random.bits(random.key_words(random.fold_in(key, 1)), shape[:-1]) % np.uint32(self.num_states)
            certain = jax.nn.one_hot(target.astype(jnp.int32), self.num_states, dtype=base.dtype)
            base = (1 - self.mix) * certain + self.mix * base
        return _with_goal(base) if self.reward_kind == "sparse" else base

    def _reward(self, key: jax.Array, dtype: Any) -> jax.Array:
        """Return the reward, given or drawn, [S, A]."""
        if self.given_reward is not None:
            return jnp.asarray(self.given_reward)
        shape = (self.num_states, self.num_actions)
        if self.reward_kind == "sparse":
            return jnp.zeros(shape, dtype).at[self.num_states - 2].set(1)
        return random.uniform(random.bits(random.key_words(key), shape), dtype) / self.horizon


def mixture_mdp(
    num_states: int,
    num_actions: int,
    dim: int,
    horizon: int,
    *,
    concentration: Any = 0.1,
    weight_concentration: Any = 1.0,
    reward: Any = "dense",
    initial: Any = 0,
    model_seed: int | None = None,
) -> MixtureMdp:
    r"""A mixture of d random base kernels, :math:`P = \sum_i w_i P_i`, with unknown weights.

    The features are :math:`\phi(s' | s, a) = (P_1(s'|s,a), \dots, P_d(s'|s,a)) / \sqrt d`, so that
    :math:`|\phi_V| \le 1`, and :math:`\theta^* = \sqrt d\, w`, of norm at most :math:`\sqrt d`.

    Args:
      num_states: S.
      num_actions: A.
      dim: d, the number of base kernels.
      horizon: H, steps per episode.
      concentration: of the Dirichlet law of each row of each base kernel. Towards 0 rows become deterministic, at 1
        they are uniform on the simplex, and large ones are all alike.
      weight_concentration: of the Dirichlet law of w.
      reward: ``dense`` (uniform in [0, 1] / H), ``sparse`` (1 in the state S - 2, from which every action leads to the
        absorbing state S - 1 without reward: one reward of 1 at most), or an array ``[S, A]``.
      initial: the first state of every episode, or the distribution ``[S]`` it is drawn from.
      model_seed: a number draws one model for all seeds; otherwise each seed has its own.

    Returns:
      The environment, a pytree.
    """
    numbers = {"concentration": concentration, "weight_concentration": weight_concentration}
    return _random_mdp(num_states, num_actions, dim, horizon, reward, initial, model_seed, numbers)


def graded_mdp(
    num_states: int,
    num_actions: int,
    dim: int,
    horizon: int,
    *,
    mix: Any,
    concentration: Any = 1.0,
    reward: Any = "dense",
    initial: Any = 0,
    model_seed: int | None = None,
) -> MixtureMdp:
    r"""A family graded by its variance: :math:`P = (1 - q) P_{det} + q P_{rand}`, one of d such kernels.

    Each of d base kernels blurs its own deterministic kernel with its own diffuse one; the truth is one of the d, and
    the learner does not know which. At q = 0 every transition is certain and the total variance is zero.

    Args:
      num_states: S.
      num_actions: A.
      dim: d, the number of base kernels.
      horizon: H, steps per episode.
      mix: q in [0, 1].
      concentration: of the Dirichlet law of the diffuse kernels' rows.
      reward: as in :func:`mixture_mdp`.
      initial: the first state of every episode, or the distribution ``[S]`` it is drawn from.
      model_seed: a number draws one model for all seeds; otherwise each seed has its own.

    Returns:
      The environment, a pytree.
    """
    numbers = {"concentration": concentration, "mix": mix}
    return _random_mdp(num_states, num_actions, dim, horizon, reward, initial, model_seed, numbers)


def _random_mdp(
    num_states: int,
    num_actions: int,
    dim: int,
    horizon: int,
    reward: Any,
    initial: Any,
    model_seed: int | None,
    numbers: dict[str, Any],
) -> MixtureMdp:
    kind = parameters.check_choice("reward", reward, REWARDS) if isinstance(reward, str) else "given"
    given = {"num_states": num_states, "num_actions": num_actions, "dim": dim, "horizon": horizon, **numbers}
    given |= {} if model_seed is None else {"model_seed": model_seed}
    declared = parameters.parameters(MixtureMdp)
    checked = {name: declared[name].check(name, value) for name, value in given.items()}
    if kind == "sparse":
        parameters.check_count("num_states", num_states, low=3)
    if kind == "given":
        parameters.check_array("reward", reward, (num_states, num_actions))
        if not parameters.is_traced(reward):  # any state may follow any other, so the bound must hold for all paths
            everything = np.ones((num_states, num_actions, num_states))
            check_reward(np.asarray(reward, float), everything, horizon)
    initial = initial_distribution(initial, num_states)
    check_distributions("initial", initial, (num_states,))
    return MixtureMdp(
        **checked,
        given_reward=leaf(reward) if kind == "given" else None,
        initial=leaf(initial),
        reward_kind=kind,
    )


def _dirichlet(key: jax.Array, concentration: Any, shape: tuple[int, ...]) -> jax.Array:
    """Draw rows of ``shape`` from the symmetric Dirichlet law; logarithms of gamma draws do not underflow near 0."""
    return jax.nn.softmax(random.log_gamma(random.key_words(key), jnp.asarray(concentration), shape), axis=-1)


def _with_goal(base: jax.Array) -> jax.Array:
    """Return ``base [d, S, A, S]`` where S - 2 leads to S - 1, which stays, and no other state to S - 1 directly."""
    num_states = base.shape[1]
    sink = jnp.zeros(num_states, base.dtype).at[num_states - 1].set(1)
    moved = base.at[:, :, :, num_states - 2].add(base[:, :, :, num_states - 1]).at[:, :, :, num_states - 1].set(0)
    return moved.at[:, num_states - 2 :].set(jnp.broadcast_to(sink, (base.shape[0], 2, base.shape[2], num_states)))
