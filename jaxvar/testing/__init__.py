"""The contract of algorithms and environments, as checks that anyone can run on their own.

Each check raises :class:`ContractError` with the broken rule in words.
"""

from jaxvar.testing.contract import (
    ContractError,
    check_algorithm,
    check_environment,
    check_episodic_algorithm,
    check_episodic_environment,
)

__all__ = [
    "ContractError",
    "check_algorithm",
    "check_environment",
    "check_episodic_algorithm",
    "check_episodic_environment",
]
