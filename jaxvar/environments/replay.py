"""Playing given arrays back: the same arms and the same noise for any algorithm, and for its NumPy twin."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import parameters
from jaxvar.environments.interface import GivenInstance, Observation, array_of, entry
from jaxvar.lowering import take
from jaxvar.parameters import Number, factory, leaf, number, part, pytree


def _mask(name: str, value: Any) -> Any:
    """Check which arms can be pulled: None for all of them."""
    if value is None or parameters.is_traced(value):
        return value
    rank, found = parameters.rank(name, value), value if isinstance(value, jax.Array) else np.asarray(value)
    if found.dtype != bool or rank not in (1, 2):
        raise ValueError(
            f"{name} must be an array of True and False of shape [num_arms] or [rounds, num_arms], "
            f"got {found.dtype} of shape {list(found.shape)}"
        )
    return np.asarray(found)


@pytree
class ReplayBandit:
    """Given arms, means and noise, played back round by round."""

    arms: Any = part(array_of(2, 3), kw_only=False, doc="``[rounds, num_arms, dim]``, or ``[num_arms, dim]`` if fixed.")
    means: Any = part(array_of(2, 1), kw_only=False, doc="``[rounds, num_arms]``, or ``[num_arms]`` if arms are fixed.")
    noise: Any = part(array_of(2, 1), kw_only=False, doc="``[rounds]``, whichever arm is pulled, or by round and arm.")
    noise_var: Any = part(
        array_of(2, 1, optional=True, squared=False),
        default=None,
        doc="its variance, of the shape of ``noise``; zero if not given.",
    )
    theta_star: Any = part(
        array_of(1, optional=True),
        default=None,
        doc="``[dim]``, where means are ``<a, theta_star>``; needed to record the confidence event.",
    )
    norm_bound: Number | None = number(above=0, squared=True, default=None, doc="A, if given: no arm may be longer.")
    available: Any = part(
        _mask,
        default=None,
        doc="which arms can be pulled, True or False: ``[rounds, num_arms]``, or ``[num_arms]`` for all rounds; at "
        "least one in each round, and all of them if not given.",
    )

    @property
    def fixed_arms(self) -> bool:
        """True if the arms are the same in all rounds."""
        return bool(self.arms.ndim == 2)

    @property
    def dim(self) -> int:
        """Length of an arm."""
        return int(self.arms.shape[-1])

    @property
    def num_arms(self) -> int:
        """Size of the decision set."""
        return int(self.arms.shape[-2])

    @property
    def max_rounds(self) -> int:
        """The number of rounds that were given."""
        return int(self.noise.shape[0])

    def check(self) -> None:
        """Refuse arrays that do not fit together; give means, noise and variances a column for each arm."""
        parameters.check_array("arms", self.arms, self.arms.shape, max_norm=self.norm_bound)
        rounds, num_arms = self.max_rounds, self.num_arms
        if not self.fixed_arms and self.arms.shape[0] != rounds:
            raise ValueError(f"arms and noise must have as many rounds, got {self.arms.shape[0]} and {rounds}")
        if self.theta_star is not None:
            parameters.check_array("theta_star", self.theta_star, (self.dim,))
        noise_var = leaf(np.zeros(rounds)) if self.noise_var is None else self.noise_var
        if not parameters.is_traced(noise_var) and noise_var.min() < 0:
            raise ValueError(f"noise_var must not be negative, got {noise_var.min()}")
        same_means = self.fixed_arms and self.means.ndim == 1
        parameters.check_array("means", self.means, (num_arms,) if same_means else (rounds, num_arms))
        tables = {"means": self.means[None] if same_means else self.means}
        for name, table in (("noise", self.noise), ("noise_var", noise_var)):
            parameters.check_array(name, table, (rounds,) if table.ndim == 1 else (rounds, num_arms))
            tables[name] = table[:, None] if table.ndim == 1 else table
        if self.available is not None:
            wanted = (num_arms,) if self.available.ndim == 1 else (rounds, num_arms)
            if self.available.shape != wanted:
                raise ValueError(f"available must have shape {list(wanted)}, got {list(self.available.shape)}")
            if not parameters.is_traced(self.available) and not np.all(np.any(self.available, axis=-1)):
                first = int(np.argmin(np.any(self.available, axis=-1))) + 1
                raise ValueError(f"available must leave at least one arm in every round, got none in round {first}")
            tables["available"] = self.available
        self.__dict__.update({name: np.broadcast_to(table, (rounds, num_arms)) for name, table in tables.items()})

    def init(self, key: jax.Array) -> GivenInstance:
        """Return what is the same in all rounds; nothing is drawn."""
        theta = None if self.theta_star is None else jnp.asarray(self.theta_star)
        return GivenInstance(theta, jnp.asarray(self.arms) if self.fixed_arms else None)

    def observe(self, instance: GivenInstance, round: jax.Array, key: jax.Array) -> Observation:
        """Return the round's entries."""
        arms = jnp.asarray(self.arms) if self.fixed_arms else entry(self.arms, round - 1)
        mean, noise_var, noise = (entry(table, round - 1) for table in (self.means, self.noise_var, self.noise))
        available = None if self.available is None else entry(self.available, round - 1)
        return Observation(arms, mean, noise_var, noise, available)

    def pull(
        self, instance: GivenInstance, observation: Observation, action: jax.Array, round: jax.Array, key: jax.Array
    ) -> jax.Array:
        """Return the given mean plus the given noise, []."""
        return take(observation.mean, action) + take(entry(self.noise, round - 1), action)


replay_bandit = factory(ReplayBandit)
