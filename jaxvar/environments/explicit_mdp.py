"""Linear mixture MDPs given by their tables: features, one transition table, or base kernels; and their checks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import parameters, planning
from jaxvar.environments.interface import Array, MdpInstance, array_of
from jaxvar.parameters import MAX_HORIZON, count, factory, leaf, part, pytree

_EXACT_SUPPORT = 16  # up to this many possible next states, all 2^n value functions of zeros and ones are tried
_TOLERANCE = 1e-6
_REWARD = "``[S, A]``, not negative; no path of H steps may collect more than 1."


def initial_state() -> Any:
    """Declare the first state of an episode; the ``check`` of its class calls :func:`initial_distribution`."""
    doc = "the first state of every episode, or the distribution ``[S]`` it is drawn from."
    return part(lambda name, value: value, default=0, doc=doc)


class TableMdp:
    """Base of the MDPs given by their tables: nothing is drawn."""

    reward: Any
    initial: Any
    horizon: int

    @property
    def num_states(self) -> int:
        """S."""
        return int(self.reward.shape[-2])

    @property
    def num_actions(self) -> int:
        """A."""
        return int(self.reward.shape[-1])

    @property
    def norm_bound(self) -> jax.Array:
        """``|theta*|``: the least B an algorithm may be told; of each setting in a sweep."""
        return jnp.sqrt(jnp.sum(jnp.square(self.parameter()), axis=-1))

    def features(self) -> jax.Array:
        """Return phi, [S, A, S, d]."""
        raise NotImplementedError

    def parameter(self) -> jax.Array:
        """Return theta*, [d]."""
        raise NotImplementedError

    def check_tables(self, num_states: int, num_actions: int, transition: Array | None) -> None:
        """Refuse rewards and first states that do not fit; ``transition [S, A, S]`` is None where it is traced."""
        parameters.check_array("reward", self.reward, (num_states, num_actions))
        self.__dict__["initial"] = initial_distribution(self.initial, num_states)
        if transition is not None and not parameters.is_traced(self.reward):
            check_reward(np.asarray(self.reward, float), transition, self.horizon)

    def init(self, key: jax.Array) -> MdpInstance:
        """Return the tables; nothing is drawn."""
        phi, theta_star = self.features(), self.parameter()
        transition = planning.mixture(phi, theta_star)
        return MdpInstance(phi, jnp.asarray(self.reward), theta_star, transition, jnp.asarray(self.initial))


@pytree
class ExplicitMdp(TableMdp):
    r"""A linear mixture MDP, :math:`P(s' | s, a) = \langle\phi(s' | s, a), \theta^*\rangle`, from given tables.

    Tables that are no linear mixture MDP are refused with a ValueError that names state, action and value.
    """

    phi: Any = part(
        array_of(4),
        kw_only=False,
        doc="features ``[S, A, S, d]``, the next state on the third axis; ``|phi_V(s, a)| <= 1`` for all V in [0, 1].",
    )
    reward: Any = part(array_of(2), kw_only=False, doc=_REWARD)
    theta_star: Any = part(array_of(1), kw_only=False, doc="``[d]``.")
    horizon: int = count(high=MAX_HORIZON, kw_only=False, doc="H, steps per episode.")
    initial: Any = initial_state()

    @property
    def dim(self) -> int:
        """D."""
        return int(self.phi.shape[-1])

    def check(self) -> None:
        """Refuse tables that are no linear mixture MDP with total reward at most 1; traced values pass."""
        num_states, num_actions, num_next, dim = self.phi.shape
        if num_next != num_states:
            raise ValueError(f"phi must have shape [S, A, S, d], got {list(self.phi.shape)}")
        parameters.check_array("theta_star", self.theta_star, (dim,))
        transition = None
        if not parameters.is_traced(self.phi) and not parameters.is_traced(self.theta_star):
            phi, theta_star = np.asarray(self.phi, float), np.asarray(self.theta_star, float)
            transition = phi @ theta_star
            check_kernel("<phi, theta_star>", transition)
            _check_features(phi)
        self.check_tables(num_states, num_actions, transition)

    def features(self) -> jax.Array:
        """Return phi as given, [S, A, S, d]."""
        return jnp.asarray(self.phi)

    def parameter(self) -> jax.Array:
        """Return theta* as given, [d]."""
        return jnp.asarray(self.theta_star)


@pytree
class TabularMdp(TableMdp):
    r"""Any finite MDP as a linear mixture: every (s, a, s') has a coordinate of its own, so that d = S A S.

    .. math:: \phi(s' | s, a) = e_{(s, a, s')} / \sqrt S, \qquad \theta^*_{(s, a, s')} = \sqrt S\, P(s' | s, a)

    With this scale the largest :math:`|\phi_V|` over V in [0, 1] is 1. ``norm_bound`` is :math:`|\theta^*|`.

    References:
      Ayoub, Jia, Szepesvari, Wang, Yang (2020), Model-based reinforcement learning with value-targeted regression,
      Appendix B.

    Deviations:
      The scale is ours: without it :math:`|\phi_V|` would reach sqrt S.
    """

    transition: Any = part(
        array_of(3), kw_only=False, doc="probabilities ``[S, A, S]`` of the next state, which is on the last axis."
    )
    reward: Any = part(array_of(2), kw_only=False, doc=_REWARD)
    horizon: int = count(high=MAX_HORIZON, kw_only=False, doc="H, steps per episode.")
    initial: Any = initial_state()

    @property
    def dim(self) -> int:
        """D, which is S A S."""
        return int(math.prod(self.transition.shape[-3:]))

    def check(self) -> None:
        """Refuse tables that are no MDP with total reward at most 1; traced values pass."""
        num_states, num_actions, num_next = self.transition.shape
        if num_next != num_states:
            raise ValueError(f"transition must have shape [S, A, S], got {list(self.transition.shape)}")
        parameters.check_table("transition", self.transition, (*self.transition.shape, self.dim))
        transition = None
        if not parameters.is_traced(self.transition):
            transition = np.asarray(self.transition, float)
            check_kernel("transition", transition)
        self.check_tables(num_states, num_actions, transition)

    def features(self) -> jax.Array:
        """Return phi, [S, A, S, S A S]."""
        return jnp.asarray(tabular_features(self.transition.shape), self.transition.dtype)

    def parameter(self) -> jax.Array:
        """Return theta*, [S A S]."""
        transition = jnp.asarray(self.transition)
        return transition.reshape(*transition.shape[:-3], -1) * math.sqrt(self.num_states)


@pytree
class KernelMixtureMdp(TableMdp):
    r"""A mixture of d given base kernels with unknown weights, :math:`P(s' | s, a) = \sum_i w_i P_i(s' | s, a)`.

    The features are :math:`\phi(s' | s, a) = (P_1(s'|s,a), \dots, P_d(s'|s,a)) / \sqrt d`, so that
    :math:`|\phi_V| \le 1`, and :math:`\theta^* = \sqrt d\, w`, whose norm is ``norm_bound``. With d simulators of the
    same system, such as one for each value of an unknown physical constant, the truth is one of them or between them.

    References:
      Ayoub, Jia, Szepesvari, Wang, Yang (2020), Model-based reinforcement learning with value-targeted regression.
    """

    kernels: Any = part(
        array_of(4), kw_only=False, doc="probabilities ``[d, S, A, S]`` of the next state, which is on the last axis."
    )
    weights: Any = part(array_of(1), kw_only=False, doc="``[d]``, probabilities of the base kernels.")
    reward: Any = part(array_of(2), kw_only=False, doc=_REWARD)
    horizon: int = count(high=MAX_HORIZON, kw_only=False, doc="H, steps per episode.")
    initial: Any = initial_state()

    @property
    def dim(self) -> int:
        """D, the number of base kernels."""
        return int(self.kernels.shape[-4])

    def check(self) -> None:
        """Refuse kernels and weights that are no probabilities, and total rewards above 1; traced values pass."""
        dim, num_states, num_actions, num_next = self.kernels.shape
        if num_next != num_states:
            raise ValueError(f"kernels must have shape [d, S, A, S], got {list(self.kernels.shape)}")
        parameters.check_array("weights", self.weights, (dim,))
        if not parameters.is_traced(self.weights):
            check_distribution("weights", np.asarray(self.weights, float), "kernel")
        transition = None
        if not parameters.is_traced(self.kernels):
            kernels = np.asarray(self.kernels, float)
            for i, kernel in enumerate(kernels):
                check_kernel(f"kernels[{i}]", kernel)
            if not parameters.is_traced(self.weights):
                transition = np.tensordot(np.asarray(self.weights, float), kernels, axes=1)
        self.check_tables(num_states, num_actions, transition)

    def features(self) -> jax.Array:
        return jnp.moveaxis(jnp.asarray(self.kernels), 0, 3) / math.sqrt(self.dim)

    def parameter(self) -> jax.Array:
        return jnp.asarray(self.weights) * math.sqrt(self.dim)


explicit_mdp = factory(ExplicitMdp)
tabular_mdp = factory(TabularMdp)
kernel_mixture_mdp = factory(KernelMixtureMdp)


def tabular_features(shape: tuple[int, ...]) -> Array:
    """Return the features ``[S, A, S, S A S]`` of a transition table of ``shape [S, A, S]``: unit vectors / sqrt S."""
    return np.eye(math.prod(shape)).reshape(*shape, -1) / math.sqrt(shape[0])


def initial_distribution(initial: Any, num_states: int) -> Any:
    """Return the distribution of the first state, [S]: as given, or certain where ``initial`` is a state's number."""
    if not parameters.is_traced(initial) and parameters.rank("initial", initial) == 0:
        first = parameters.check_count("initial", initial, low=0, high=num_states - 1)
        initial = np.zeros(num_states)
        initial[first] = 1
    parameters.check_array("initial", initial, (num_states,))
    if not parameters.is_traced(initial):
        check_distribution("initial", np.asarray(initial), "state")
    return leaf(initial)


def check_distribution(name: str, probabilities: Array, of: str) -> None:
    """Refuse ``probabilities [N]`` of states, or of what ``of`` says, that are negative or do not sum to 1."""
    least, total = probabilities.min(), probabilities.sum()
    if least < -_TOLERANCE:
        raise ValueError(f"{name} must hold probabilities, got {least:g} for {of} {probabilities.argmin()}")
    if abs(total - 1) > _TOLERANCE:
        raise ValueError(f"{name} must hold probabilities that sum to 1, got the sum {total:g}")


def check_reward(reward: Array, transition: Array, horizon: int) -> None:
    """Refuse rewards ``[S, A]`` that are negative, or of which a path of H steps may collect more than 1."""
    if reward.min() < 0:
        s, a = _where(reward, np.argmin)
        raise ValueError(f"reward must not be negative: state {s}, action {a} has {reward[s, a]:g}")
    most, through = np.zeros(len(reward)), reward
    reached = transition > _TOLERANCE * 1e-6
    for _ in range(horizon):
        through, before = reward + np.where(reached, most, -np.inf).max(axis=2), most
        most = through.max(axis=1)
        if np.array_equal(most, before):  # nothing is collected any more
            break
    if most.max() > 1 + _TOLERANCE:
        s, a = _where(through, np.argmax)
        raise ValueError(
            f"reward: no path may collect more than 1 in {horizon} steps; one from state {s}, action {a} "
            f"collects {through[s, a]:g} (divide the rewards by the horizon?)"
        )


def check_kernel(name: str, transition: Array) -> None:
    """Refuse ``transition [S, A, S]``, called ``name``, that holds no probabilities of the next states."""
    if transition.min() < -_TOLERANCE:
        s, a, t = _where(transition, np.argmin)
        raise ValueError(
            f"{name} must not be negative: state {s}, action {a}, next state {t} has {transition[s, a, t]:g}"
        )
    total = transition.sum(axis=2)
    if np.abs(total - 1).max() > _TOLERANCE:
        s, a = _where(np.abs(total - 1), np.argmax)
        raise ValueError(f"{name} must sum to 1 over next states: state {s}, action {a} has {total[s, a]:g}")


def _check_features(phi: Array) -> None:
    """Refuse features ``[S, A, S, d]`` with ``|phi_V(s, a)| > 1`` for a value function V with values in [0, 1]."""
    for s, a in np.ndindex(*phi.shape[:2]):
        low, high = feature_norm(phi[s, a])
        if high > 1 + _TOLERANCE:
            found = f"state {s}, action {a} reaches {low:g}"
            if low <= 1 + _TOLERANCE:
                found = (
                    f"for state {s}, action {a} it is known only to lie between {low:g} and {high:g} "
                    f"(more than {_EXACT_SUPPORT} next states and features of both signs)"
                )
            raise ValueError(f"|phi_V| must be at most 1 for V in [0, 1]: {found}")


def _where(table: Array, find: Callable[[Array], np.intp]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(find(table), table.shape))


def feature_norm(features: Array) -> tuple[float, float]:
    """Return a lower and an upper bound of the largest ``|sum_s' V(s') features[s']|`` over V in [0, 1].

    They are equal where it is known exactly. The norm is convex in V, so it is largest where V is 0 or 1. Coordinates
    of one sign are largest at V = 1; else all choices are tried for few possible next states, and for many the positive
    and negative parts give an upper bound.
    """
    features = features[np.any(features != 0, axis=1)]
    positive, negative = np.maximum(features, 0).sum(0), np.maximum(-features, 0).sum(0)
    if not np.any(positive * negative):
        largest = float(np.linalg.norm(features.sum(0)))
        return largest, largest
    if len(features) <= _EXACT_SUPPORT:
        sums = np.zeros((1, features.shape[1]))
        for row in features:
            sums = np.concatenate([sums, sums + row])
        largest = float(np.linalg.norm(sums, axis=1).max())
        return largest, largest
    low = max(np.linalg.norm(features[features @ sign > 0].sum(0)) for sign in (positive, -negative, features.sum(0)))
    return float(low), float(np.linalg.norm(np.maximum(positive, negative)))


def normalised(phi: Array, theta_star: Array) -> tuple[Array, Array]:
    """Return the same kernel with features divided by the largest ``|phi_V|`` (and theta* multiplied by it)."""
    rows = phi.reshape(-1, *phi.shape[2:])
    largest = max(feature_norm(row)[1] for row in rows)
    return phi / largest, theta_star * largest
