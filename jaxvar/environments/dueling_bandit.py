"""Dueling bandits: a choice is a pair of arms, and what comes back is which of the two won."""

from __future__ import annotations

from typing import NamedTuple

import jax

from jaxvar import parameters, random
from jaxvar.environments.linear_bandit import LinearArms, LinearInstance
from jaxvar.lowering import take
from jaxvar.parameters import Number, choice, factory, number, pytree

LINKS = ("logistic", "linear")


class DuelObservation(NamedTuple):
    """A round's decision set."""

    arms: jax.Array  # [num_arms, dim]
    mean: jax.Array  # [num_arms]   <a, theta*>, the utilities
    available: jax.Array | None = None  # [num_arms]   bool, which arms can be chosen; None where all can


class Outcome(NamedTuple):
    """The result of a duel, and its law."""

    reward: jax.Array  # []   1 where the first arm won, 0 where the second did
    mean: jax.Array  # []   the probability p that the first wins
    noise_var: jax.Array  # []   p (1 - p)


@pytree
class DuelingBandit(LinearArms):
    r"""Duels: arm i beats arm j with probability :math:`\mu(\langle x_i - x_j, \theta^*\rangle)`.

    The variance of the outcome, :math:`p (1 - p)`, is small where one arm is far better than the other. Regret is
    that of both arms, :math:`\langle 2 x^* - x_i - x_j, \theta^*\rangle`, so that a round costs nothing only where the
    best arm meets itself.
    """

    link: str = choice(
        *LINKS,
        default="logistic",
        doc=r"``logistic``, :math:`1 / (1 + e^{-z})`; or ``linear``, :math:`1/2 + z`, where utilities must differ "
        "by at most 1/2.",
    )
    scale: Number = number(
        above=0, squared=True, default=1.0, doc="S: theta* has S times the norm of what is drawn or given."
    )

    def check(self) -> None:
        """Refuse arms and theta* that do not fit together, and probabilities outside of [0, 1]."""
        super().check()
        if self.link == "linear" and not any(map(parameters.is_traced, (self.scale, self.norm_bound))):
            widest = 2 * float(self.scale) * float(self.norm_bound)
            if widest > 0.5:
                raise ValueError(
                    f"scale must be at most {0.25 / float(self.norm_bound):g} for the linear link, where probabilities "
                    f"are 1/2 + <x_i - x_j, theta*>, got {float(self.scale):g}"
                )

    def scaled(self, theta: jax.Array) -> jax.Array:
        """Return theta* in the units of utilities, [dim]."""
        return self.scale * theta

    def observe(self, instance: LinearInstance, round: jax.Array, key: jax.Array) -> DuelObservation:
        """Return the round's arms and their utilities, and which arms are there."""
        return DuelObservation(*self.decision_set(instance, random.key_words(key)))

    def duel(
        self,
        instance: LinearInstance,
        observation: DuelObservation,
        action: jax.Array,
        rival: jax.Array,
        round: jax.Array,
        key: jax.Array,
    ) -> Outcome:
        """Return who won, and how likely that was."""
        ahead = take(observation.mean, action) - take(observation.mean, rival)
        p = jax.nn.sigmoid(ahead) if self.link == "logistic" else 0.5 + ahead
        won = random.uniform(random.bits(random.key_words(key), ()), p.dtype) < p
        return Outcome(won.astype(p.dtype), p, p * (1 - p))


dueling_bandit = factory(DuelingBandit)
