"""The public names of jaxvar; ``import jaxvar`` loads this module when one of them is first used."""

from jaxvar import analysis, constants, figures, nets, planning, random, report, ridge, status, tables, testing
from jaxvar import records as record
from jaxvar.algorithms import catalogue as _catalogue
from jaxvar.algorithms.ada_ecolog import ada_ecolog
from jaxvar.algorithms.ave_ucb import ave_ucb
from jaxvar.algorithms.ellipsoid import confidence_ball, cw_oful, greedy, oful
from jaxvar.algorithms.glb_omd import glb_omd
from jaxvar.algorithms.heavy_oful import heavy_oful, hvt_ucb
from jaxvar.algorithms.interface import Choice, Confidence, Ellipsoids, Model, Pair, Side, Step
from jaxvar.algorithms.lin_vdts import lin_vdts
from jaxvar.algorithms.lsvi import lsvi_ucb, lsvi_ucb_plus
from jaxvar.algorithms.moments import hf_ucrl_vtr_plus, ucrl_wvtr
from jaxvar.algorithms.noise_adaptive import lofav, losan
from jaxvar.algorithms.save import save
from jaxvar.algorithms.sup_lin_ucb import sup_lin_ucb
from jaxvar.algorithms.tabular import mvp, ucbvi
from jaxvar.algorithms.thompson import fgts_va, lin_ts
from jaxvar.algorithms.ucb import ucb1, ucb_v
from jaxvar.algorithms.ucrl_ave import ucrl_ave
from jaxvar.algorithms.ucrl_vtr import ucrl_vtr, ucrl_vtr_plus
from jaxvar.algorithms.uniform import uniform
from jaxvar.algorithms.vacdb import max_in_p, vacdb
from jaxvar.algorithms.vaee import vaee
from jaxvar.algorithms.var_lin import var_lin, var_lin2
from jaxvar.algorithms.voful import voful, voful2
from jaxvar.algorithms.weighted_oful import weighted_lin_ts, weighted_oful, weighted_oful_plus
from jaxvar.cli import keep_programs, tune_cpu
from jaxvar.environments import noise, schedules
from jaxvar.environments.classic_mdp import deep_tree, riverswim
from jaxvar.environments.data_bandit import data_bandit
from jaxvar.environments.dueling_bandit import DuelObservation, Outcome, dueling_bandit
from jaxvar.environments.explicit_mdp import explicit_mdp, kernel_mixture_mdp, tabular_mdp
from jaxvar.environments.hard_mdp import horizon_dependent_mdp, horizon_free_mdp
from jaxvar.environments.hypercube import hypercube_bandit, hypercube_blocks
from jaxvar.environments.interface import MdpInstance, Observation
from jaxvar.environments.k_armed import k_armed
from jaxvar.environments.linear_bandit import linear_bandit
from jaxvar.environments.linear_mdp import linear_mdp
from jaxvar.environments.logistic_bandit import logistic_bandit
from jaxvar.environments.random_mdp import graded_mdp, mixture_mdp
from jaxvar.environments.replay import replay_bandit
from jaxvar.environments.table_bandit import table_bandit
from jaxvar.records import linear_spaced, log_spaced
from jaxvar.run import EpisodeTrace, RunResult, Trace, run, trace
from jaxvar.simulate import SimulationError, SimulationResult, simulate, sweep
from jaxvar.study.compare import compare
from jaxvar.study.definition import Entry, Study
from jaxvar.study.factories import RunError, StudyError
from jaxvar.study.result import CellResult, StudyResult, load
from jaxvar.study.run import run_study
from jaxvar.study.toml import read_study
from jaxvar.theory import audit, calibration
from jaxvar.until import run_until_separated
from jaxvar.wrappers.algorithms import batched, delayed
from jaxvar.wrappers.environments import corrupted, drifting

__all__ = [
    "CellResult",
    "Choice",
    "Confidence",
    "DuelObservation",
    "Ellipsoids",
    "Entry",
    "EpisodeTrace",
    "MdpInstance",
    "Model",
    "Observation",
    "Outcome",
    "Pair",
    "RunError",
    "RunResult",
    "Side",
    "SimulationError",
    "SimulationResult",
    "Step",
    "Study",
    "StudyError",
    "StudyResult",
    "Trace",
    "ada_ecolog",
    "analysis",
    "audit",
    "ave_ucb",
    "batched",
    "calibration",
    "compare",
    "confidence_ball",
    "constants",
    "corrupted",
    "cw_oful",
    "data_bandit",
    "deep_tree",
    "delayed",
    "drifting",
    "dueling_bandit",
    "explicit_mdp",
    "fgts_va",
    "figures",
    "glb_omd",
    "graded_mdp",
    "greedy",
    "heavy_oful",
    "hf_ucrl_vtr_plus",
    "horizon_dependent_mdp",
    "horizon_free_mdp",
    "hvt_ucb",
    "hypercube_bandit",
    "hypercube_blocks",
    "k_armed",
    "keep_programs",
    "kernel_mixture_mdp",
    "lin_ts",
    "lin_vdts",
    "linear_bandit",
    "linear_mdp",
    "linear_spaced",
    "load",
    "lofav",
    "log_spaced",
    "logistic_bandit",
    "losan",
    "lsvi_ucb",
    "lsvi_ucb_plus",
    "max_in_p",
    "mixture_mdp",
    "mvp",
    "nets",
    "noise",
    "oful",
    "planning",
    "random",
    "read_study",
    "record",
    "replay_bandit",
    "report",
    "ridge",
    "riverswim",
    "run",
    "run_study",
    "run_until_separated",
    "save",
    "schedules",
    "simulate",
    "status",
    "sup_lin_ucb",
    "sweep",
    "table_bandit",
    "tables",
    "tabular_mdp",
    "testing",
    "trace",
    "tune_cpu",
    "ucb1",
    "ucb_v",
    "ucbvi",
    "ucrl_ave",
    "ucrl_vtr",
    "ucrl_vtr_plus",
    "ucrl_wvtr",
    "uniform",
    "vacdb",
    "vaee",
    "var_lin",
    "var_lin2",
    "voful",
    "voful2",
    "weighted_lin_ts",
    "weighted_oful",
    "weighted_oful_plus",
]

# The names above are for readers, editors and type checkers. An algorithm that is not among them is exported as well.
for _name, _factory in _catalogue.FACTORIES.items():
    if _name not in __all__:
        globals()[_name] = _factory
        __all__.append(_name)
