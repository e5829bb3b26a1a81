"""jaxvar: batched simulation of variance-adaptive bandits, in JAX.

The ten lines to start from are in the README; ``help`` of each name has its equations, shapes and references.
"""

from jaxvar import constants, random, ridge, status, testing
from jaxvar import records as record
from jaxvar.algorithms.ave_ucb import ave_ucb
from jaxvar.algorithms.interface import Choice, Confidence, Side
from jaxvar.algorithms.oful import greedy, oful
from jaxvar.algorithms.save import save
from jaxvar.algorithms.uniform import uniform
from jaxvar.cpu import tune_cpu
from jaxvar.environments import noise, schedules
from jaxvar.environments.hypercube import hypercube_bandit
from jaxvar.environments.interface import Observation
from jaxvar.environments.linear_bandit import linear_bandit
from jaxvar.environments.replay import replay_bandit
from jaxvar.records import linear_spaced, log_spaced
from jaxvar.result import SimulationError, SimulationResult
from jaxvar.runner import RunResult, Trace, run, trace
from jaxvar.simulate import simulate
from jaxvar.sweep import sweep

__version__ = "0.1.0"

__all__ = [
    "Choice",
    "Confidence",
    "Observation",
    "RunResult",
    "Side",
    "SimulationError",
    "SimulationResult",
    "Trace",
    "ave_ucb",
    "constants",
    "greedy",
    "hypercube_bandit",
    "linear_bandit",
    "linear_spaced",
    "log_spaced",
    "noise",
    "oful",
    "random",
    "record",
    "replay_bandit",
    "ridge",
    "run",
    "save",
    "schedules",
    "simulate",
    "status",
    "sweep",
    "testing",
    "trace",
    "tune_cpu",
    "uniform",
]
