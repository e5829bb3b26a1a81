"""Logistic and Poisson bandits: means are a curve of ``<a, theta*>``, and variances follow from means."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import parameters, random
from jaxvar.environments.interface import Observation
from jaxvar.environments.linear_bandit import LinearArms, LinearInstance
from jaxvar.lowering import largest, take
from jaxvar.parameters import Number, choice, factory, number, pytree

LINKS = ("logistic", "poisson")
_LARGEST_LOGIT = 4.0  # of Poisson rewards: their means are at most 55, and exp(-mean) is still a float32


@pytree
class LogisticBandit(LinearArms):
    r"""Rewards 0 or 1 with mean :math:`\mu(\langle a, \theta^*\rangle)`, or Poisson counts.

    The variance of a reward is the slope of :math:`\mu` at its arm, :math:`\mu (1 - \mu)` or the mean itself: an arm
    that nearly always wins is nearly without noise. Regret is that of means. Algorithms for linear rewards are
    misspecified here.

    ``kappa`` of what is returned is :math:`1 / \mu'` where the slope is least, over all arms and parameters that are
    allowed; ``kappa_star(instance)`` is :math:`1 / \mu'` at the best arm of an instance.
    """

    link: str = choice(
        *LINKS,
        default="logistic",
        doc=r"``logistic``, rewards 0 or 1 with :math:`\mu(z) = 1 / (1 + e^{-z})`; or ``poisson``, counts with "
        r":math:`\mu(z) = e^z`, which have no bound.",
    )
    scale: Number = number(
        above=0, squared=True, default=1.0, doc="S: theta* has S times the norm of what is drawn or given."
    )

    @property
    def noise_bound(self) -> Number:
        """R: no noise is larger; infinite for counts."""
        return 1.0 if self.link == "logistic" else math.inf

    @property
    def kappa(self) -> jax.Array:
        """One over the least slope of the link for arms and theta* of the largest norms, []."""
        return 1 / self.law(jnp.asarray(-self.scale * self.norm_bound))[1]

    def kappa_star(self, instance: LinearInstance) -> jax.Array:
        """Return one over the slope of the link at the best arm of an instance whose arms are fixed, []."""
        if instance.mean is None:
            raise ValueError("kappa_star needs arms that are fixed: build the environment with fresh=False")
        return 1 / self.law(largest(instance.mean))[1]

    def check(self) -> None:
        """Refuse arms and theta* that do not fit together, and means of counts that are too large to draw from."""
        super().check()
        if self.link == "poisson" and not any(map(parameters.is_traced, (self.scale, self.norm_bound))):
            most = _LARGEST_LOGIT / float(self.norm_bound)
            if float(self.scale) > most:
                raise ValueError(
                    f"scale must be at most {most:g} for the poisson link, where means grow to "
                    f"exp(scale * norm_bound), got {float(self.scale):g}"
                )

    def scaled(self, theta: jax.Array) -> jax.Array:
        """Return theta* in the units of the link, [dim]."""
        return self.scale * theta

    def law(self, logit: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the mean and the variance of rewards for ``<a, theta*> [...]``; the variance is the link's slope."""
        if self.link == "poisson":
            mean = jnp.exp(logit)
            return mean, mean
        mean = jax.nn.sigmoid(logit)
        return mean, mean * jax.nn.sigmoid(-logit)

    def observe(self, instance: LinearInstance, round: jax.Array, key: jax.Array) -> Observation:
        """Return the round's arms, means and variances, and which arms are there."""
        arms, logit, available = self.decision_set(instance, random.key_words(key))
        mean, variance = self.law(logit)
        return Observation(arms, mean, variance, jnp.sqrt(variance), available)

    def pull(
        self, instance: LinearInstance, observation: Observation, action: jax.Array, round: jax.Array, key: jax.Array
    ) -> jax.Array:
        """Return 0 or 1, or a count, []."""
        mean = take(observation.mean, action)
        u = random.uniform(random.bits(random.key_words(key), ()), mean.dtype)
        return poisson(u, mean) if self.link == "poisson" else (u < mean).astype(mean.dtype)


logistic_bandit = factory(LogisticBandit)


def poisson(u: jax.Array, mean: jax.Array) -> jax.Array:
    """Return the count that a Poisson law of ``mean []`` exceeds with probability at most ``1 - u []``, [].

    Probabilities are added up from zero on until they reach u, or until the next one is below rounding.
    """

    def goes_on(loop: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        _, chance, total = loop
        return (total < u) & (chance > np.finfo(mean.dtype).eps * total)

    def add(loop: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        count, chance, total = loop
        chance = chance * mean / (count + 1)
        return count + 1, chance, total + chance

    none = jnp.exp(-mean)
    return jax.lax.while_loop(goes_on, add, (jnp.zeros_like(mean), none, none))[0]
