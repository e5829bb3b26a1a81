"""Random linear mixture MDPs: mixtures of base kernels, and a family graded by its variance. Drawn anew per seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import parameters, planning, random
from jaxvar.environments.explicit_mdp import check_reward, initial_distribution, initial_state
from jaxvar.environments.interface import Drawn, MdpInstance
from jaxvar.lowering import computed_once
from jaxvar.parameters import MAX_HORIZON, Number, count, factory, number, part, pytree

LEAST_CONCENTRATION = 1e-30  # gamma draws of a smaller shape are NaN in float32


@pytree
class RandomMdp:
    """Base of the random mixtures: sizes, rewards and the first state; kernels and weights are for its kinds."""

    num_states: int = count(kw_only=False, doc="S.")
    num_actions: int = count(kw_only=False, doc="A.")
    dim: int = count(kw_only=False, doc="d, the number of base kernels.")
    horizon: int = count(high=MAX_HORIZON, kw_only=False, doc="H, steps per episode.")
    reward: Any = part(
        Drawn.or_given("dense", "sparse"),
        default="dense",
        doc="``dense`` (uniform in [0, 1] / H), ``sparse`` (1 in the state S - 2, from which every action leads to the "
        "absorbing state S - 1 without reward: one reward of 1 at most), or an array ``[S, A]``.",
    )
    initial: Any = initial_state()
    model_seed: int | None = count(
        low=0, high=2**32 - 1, default=None, doc="a number draws one model for all seeds; otherwise each has its own."
    )

    @property
    def norm_bound(self) -> float:
        """``sqrt d``: no parameter drawn is longer."""
        return math.sqrt(self.dim)

    @property
    def is_sparse(self) -> bool:
        """True if only one state pays."""
        return isinstance(self.reward, Drawn) and self.reward.law == "sparse"

    def check(self) -> None:
        """Refuse rewards and first states that do not fit the sizes."""
        shape = (self.num_states, self.num_actions, self.num_states, self.dim)
        largest = max(("num_states", "num_actions", "dim"), key=lambda name: int(getattr(self, name)))
        parameters.check_table(largest, getattr(self, largest), shape)
        if self.is_sparse:
            parameters.check_count("num_states", self.num_states, low=3)
        if not isinstance(self.reward, Drawn):
            parameters.check_array("reward", self.reward, (self.num_states, self.num_actions))
            if not parameters.is_traced(self.reward):  # any state may follow any other: the bound is for all paths
                everything = np.ones((self.num_states, self.num_actions, self.num_states))
                check_reward(np.asarray(self.reward, float), everything, self.horizon)
        self.__dict__["initial"] = initial_distribution(self.initial, self.num_states)

    def mixture(self, keys: Sequence[Any], shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
        """Draw base kernels, [d, S, A, S], and the weights of their mixture, [d], by a key each."""
        raise NotImplementedError

    def init(self, key: jax.Array) -> MdpInstance:
        """Draw base kernels, weights and rewards."""
        *keys, rewards = model_keys(key, self.model_seed)
        base, weights = self.mixture(keys, (self.dim, self.num_states, self.num_actions, self.num_states))
        if self.is_sparse:
            base = _with_goal(base)
        scale = np.asarray(math.sqrt(self.dim), base.dtype)
        phi, theta_star = jnp.moveaxis(base, 0, 3) / scale, weights * scale
        shape = (self.num_states, self.num_actions)
        if not isinstance(self.reward, Drawn):
            reward = jnp.asarray(self.reward)
        elif self.is_sparse:
            reward = jnp.zeros(shape, base.dtype).at[self.num_states - 2].set(1)
        else:
            reward = computed_once(random.uniform(random.bits(rewards, shape), base.dtype) / self.horizon)
        return MdpInstance(phi, reward, theta_star, planning.mixture(phi, theta_star), jnp.asarray(self.initial))


@pytree
class MixtureMdp(RandomMdp):
    r"""A mixture of d random base kernels, :math:`P = \sum_i w_i P_i`, with unknown weights.

    The features are :math:`\phi(s' | s, a) = (P_1(s'|s,a), \dots, P_d(s'|s,a)) / \sqrt d`, so that
    :math:`|\phi_V| \le 1`, and :math:`\theta^* = \sqrt d\, w`, of norm at most :math:`\sqrt d`.
    """

    concentration: Number = number(
        at_least=LEAST_CONCENTRATION,
        default=0.1,
        doc="of the Dirichlet law of each row of each base kernel. Towards 0 rows become deterministic, at 1 they are "
        "uniform on the simplex, and large ones are all alike.",
    )
    weight_concentration: Number = number(at_least=LEAST_CONCENTRATION, default=1.0, doc="of the Dirichlet law of w.")

    def mixture(self, keys: Sequence[Any], shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
        """Draw rows as they are, and weights from the Dirichlet law."""
        rows, weights = dirichlet((keys[0], self.concentration, shape), (keys[1], self.weight_concentration, shape[:1]))
        return rows, weights


@pytree
class GradedMdp(RandomMdp):
    r"""A family graded by its variance: :math:`P = (1 - q) P_{det} + q P_{rand}`, one of d such kernels.

    Each of d base kernels blurs its own deterministic kernel with its own diffuse one; the truth is one of the d, and
    the learner does not know which. At q = 0 every transition is certain and the total variance is zero.
    """

    mix: Number = number(at_least=0, at_most=1, doc="q, how much of the diffuse kernel.")
    concentration: Number = number(
        at_least=LEAST_CONCENTRATION, default=1.0, doc="of the Dirichlet law of the diffuse kernels' rows."
    )

    def mixture(self, keys: Sequence[Any], shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
        """Draw deterministic rows, blurred by diffuse ones, and the kernel that is the truth: a one and zeros."""
        base = dirichlet((keys[0], self.concentration, shape))[0]
        inner = random.threefry(keys[0][0], keys[0][1], jnp.uint32(0), jnp.uint32(1))
        target = random.bits(inner, shape[:-1]) % np.uint32(self.num_states)
        certain = jax.nn.one_hot(target.astype(jnp.int32), self.num_states, dtype=base.dtype)
        truth = (random.bits(keys[1], ()) % np.uint32(self.dim)).astype(jnp.int32)
        return (1 - self.mix) * certain + self.mix * base, jax.nn.one_hot(truth, self.dim, dtype=base.dtype)


mixture_mdp = factory(MixtureMdp)
graded_mdp = factory(GradedMdp)


def dirichlet(*draws: tuple[Any, Number, tuple[int, ...]]) -> list[jax.Array]:
    """Draw rows from symmetric Dirichlet laws: of each the words of a key, the concentration and the shape.

    Logarithms of gamma draws do not underflow near 0.
    """
    logs = random.log_gamma(*((words, jnp.asarray(a), shape) for words, a, shape in draws))
    return [jax.nn.softmax(v, axis=-1) for v in logs]


def model_keys(key: jax.Array, seed: int | None) -> list[Any]:
    """Return the words of three keys for a model's parts, of a seed if there is one, else of ``key``.

    Those of a seed are numbers of NumPy's: XLA would make them anew for each draw.
    """
    if seed is None:
        return [random.key_words(k) for k in random.fold_in(key, np.arange(3))]
    root: Any = np.array([[0], [seed]], np.uint32)
    return list(np.stack(random.threefry(root[0], root[1], np.uint32(0), np.arange(3, dtype=np.uint32)), axis=1))


def _with_goal(base: jax.Array) -> jax.Array:
    """Return ``base [d, S, A, S]`` where S - 2 leads to S - 1, which stays, and no other state to S - 1 directly."""
    num_states = base.shape[1]
    sink = jnp.zeros(num_states, base.dtype).at[num_states - 1].set(1)
    moved = base.at[:, :, :, num_states - 2].add(base[:, :, :, num_states - 1]).at[:, :, :, num_states - 1].set(0)
    return moved.at[:, num_states - 2 :].set(jnp.broadcast_to(sink, (base.shape[0], 2, base.shape[2], num_states)))
