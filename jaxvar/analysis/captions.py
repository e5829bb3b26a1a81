"""Names and sentences for captions, tables and messages: cells, settings, seeds, constants and rounded numbers.

Names of parameters, records, algorithms and environments become words here, for figures, tables and the report alike.
Messages keep the names that a study file has.
"""

from __future__ import annotations

import functools
import math
import unicodedata
from collections.abc import Iterable, Mapping

import numpy as np

from jaxvar.algorithms.catalogue import CLAIMS
from jaxvar.listing import escape
from jaxvar.study.factories import public_factories
from jaxvar.study.result import CellResult

PARAMETER_WORDS = {  # names that are words already, such as gap, are left out
    "beta_scale": "multiplier of the radius",
    "budget": "variance budget",
    "constants.beta_scale": "multiplier of the radius",
    "cube_dim": "dimension d",
    "delta": "failure probability δ",
    "feature_concentration": "concentration of the features",
    "floor_scale": "multiplier of the floors",
    "least_std": "least standard deviation",
    "dim": "dimension d",
    "feel_good": "feel-good weight",
    "fixed_radius": "fixed radius",
    "gap_multiplier": "multiplier of the gaps",
    "horizon": "horizon H",
    "lam": "ridge λ",
    "level": "noise level",
    "model_seed": "seed of the model",
    "noise.bound": "bound of the noise",
    "noise.scale": "size of rewards",
    "noise.std": "noise (standard deviation)",
    "noise_bound": "noise bound R",
    "noise_scale": "scale of the noise",
    "noise_var": "noise variance",
    "norm_bound": "norm bound",
    "num_actions": "number of actions",
    "num_arms": "number of arms",
    "num_directions": "number of directions",
    "num_episodes": "number of episodes K",
    "num_exponents": "number of exponents",
    "num_groups": "number of groups",
    "num_layers": "number of layers",
    "num_moments": "number of moments",
    "num_proposals": "number of proposals",
    "num_rounds": "number of rounds K",
    "num_scales": "number of scales",
    "num_states": "number of states",
    "sigma_min": "smallest standard deviation",
    "theta_bound": "bound of |θ*|",
    "tie_tolerance": "tolerance of ties",
    "value_bound": "bound of values",
    "variance_bound": "variance bound",
    "variance_scale": "multiplier of variances",
    "weight_concentration": "concentration of the weights",
    "wrap.budget": "corruption budget C",
    "wrap.delay": "delay (rounds)",
    "wrap.every": "rounds per batch",
    "wrap.per_round": "largest corruption of a round",
}
RECORD_WORDS = {"regret": "cumulative pseudo-regret", "variance": "total variance"}
_TEX = {
    "±": r"$\pm$",
    "−": "$-$",
    "×": r"$\times$",
    "√": r"$\surd$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "…": r"\ldots{}",
    "²": r"\textsuperscript{2}",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "δ": r"$\delta$",
    "θ": r"$\theta$",
    "λ": r"$\lambda$",
    "μ": r"$\mu$",
    "σ": r"$\sigma$",
}
_JOINERS = "\u200c\u200d"  # join letters in several scripts, and do not change the direction of text


def parameter_word(parameter: str) -> str:
    """Return a swept parameter in words; a name that is not ours stays as it is."""
    return PARAMETER_WORDS.get(parameter, parameter)


def record_word(record: str) -> str:
    """Return a record in words, for an axis."""
    return RECORD_WORDS.get(record, record)


def label_word(label: str) -> str:
    """Return a label; if it is a factory's name, since no other was given, return what the factory makes in words."""
    return _factory_words().get(label, label)


@functools.cache
def _factory_words() -> dict[str, str]:
    """Return the names that algorithms have in papers, and environments without underscores, by factory."""
    words = {name: name.replace("_", " ").replace("mdp", "MDP") for name in public_factories()}
    return words | {claim.factory: claim.name for claim in CLAIMS} | {"riverswim": "RiverSwim"}


def value_text(value: object) -> str:
    """Return a swept value as short text."""
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


def settings_text(settings: Mapping[str, object]) -> str:
    """Return swept values as ``dimension d = 4, noise (standard deviation) = 0.1``."""
    return ", ".join(f"{parameter_word(name)} = {value_text(value)}" for name, value in settings.items())


def named(label: str, settings: Mapping[str, object]) -> str:
    """Return a label followed by its settings, if there are any, in words."""
    return ", ".join(filter(None, (label_word(label), settings_text(settings))))


def algorithm_name(cell: CellResult) -> str:
    """Return the algorithm's label with its swept values."""
    return named(cell.algorithm, cell.algorithm_settings)


def environment_name(cell: CellResult) -> str:
    """Return the environment's label with its swept values."""
    return named(cell.environment, cell.environment_settings)


def cell_name(cell: CellResult) -> str:
    """Return algorithm and environment as the study file names them, for messages: ``SAVE in sphere, dim = 4``."""
    both = ((cell.algorithm, cell.algorithm_settings), (cell.environment, cell.environment_settings))
    return " in ".join(", ".join([name, *(f"{k} = {value_text(v)}" for k, v in own.items())]) for name, own in both)


def span(numbers: Iterable[int]) -> str:
    """Return numbers as ``256``, or as ``250 to 256`` if they differ."""
    found = sorted(set(numbers))
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def percent(level: float) -> str:
    """Return a level as ``95 %``."""
    return f"{100 * level:g} %"


def decimals(uncertainty: float, value: float = 0.0) -> int:
    """Return the decimal places that show two significant digits of an uncertainty.

    If the uncertainty is zero, infinite or lost in the rounding of ``value``, they show three digits of ``value``.
    """
    if not math.isfinite(uncertainty) or uncertainty <= 1e-12 * abs(value):
        size, digits = abs(value), 3
    else:
        size, digits = uncertainty, 2
    if size == 0 or not math.isfinite(size):
        return 0
    return max(0, min(12, digits - 1 - math.floor(math.log10(float(f"{size:.{digits - 1}e}")))))


def seeds_text(seeds: Iterable[int], left_out: int) -> str:
    """Return ``256 seeds``, followed by the number of failed seeds that were left out, if any."""
    number = span(seeds)
    failed = f" ({left_out:,} failed and left out, in all cells)" if left_out else ""
    return f"{number} seed{'' if number == '1' else 's'}{failed}"


def constants_text(cells: Iterable[CellResult]) -> str:
    """Return the constants of each algorithm: ``Constants: paper for SAVE; theorem for OFUL.``."""
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        found.setdefault(cell.constants, {})[label_word(cell.algorithm)] = None
    if len(found) == 1:
        return f"Constants: {next(iter(found))}."
    parts = [f"{name} for {', '.join(labels)}" for name, labels in found.items()]
    return f"Constants: {'; '.join(parts)}."


def visible(text: object) -> str:
    """Return text on one line, with control and formatting characters written as ``<U+202E>``."""
    line = " ".join(str(text).split())
    return "".join(
        f"<U+{ord(c):04X}>" if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in _JOINERS else c for c in line
    )


def latex(text: object) -> str:
    r"""Return text on one line for LaTeX, such as the argument of ``\caption``; commands in it are escaped."""
    return "".join(_TEX.get(c, c) for c in escape(visible(text)))
