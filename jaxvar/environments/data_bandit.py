"""Bandits from published data sets, by fits that are stored with the package.

``scripts/make_data.py`` makes the files in ``data/`` with scikit-learn. They hold plain float32 arrays: nothing is
downloaded, fitted or unpickled when they are read.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np

from jaxvar import parameters
from jaxvar.environments.interface import Array
from jaxvar.environments.table_bandit import TableBandit, table_bandit
from jaxvar.parameters import Number

_FOLDER = Path(__file__).parent / "data"
_DIGESTS = {
    "digits": "905a834e723f42a2ae2482542d56a16b4a9468893f34ef9cccf47c876ed11e77",
    "breast_cancer": "b73ddd7d40f529bd3bea5fb6ad9b78d99196a2da84e55676f111951d6c9c34d7",
    "wine": "dd5e80b4f904fb204ae7813a7db2a4f685fac68f68628d1a921d4e232166a789",
    "diabetes": "c5eb14003e2beaeb3e44c16630c4a2500cb718eda4ca10159c23c60bf37f8f86",
}
TASKS = tuple(_DIGESTS)


def data_bandit(task: str, noise_scale: Number = 1.0) -> TableBandit:
    r"""Return a bandit made from a data set, with exact means and variances.

    * ``digits`` (1,797 images, 10 classes, d = 90), ``breast_cancer`` (569 patients, 2 classes, d = 18) and ``wine``
      (178 wines, 3 classes, d = 27) are classification: in each round a row is drawn, and an arm is the guess of a
      class. The reward is Bernoulli(p), with p the probability of that class by a multinomial logistic regression that
      was fitted once, on the same eight whitened principal components that the features show: arm k has
      :math:`(1, z) / c` in its k-th block, where c makes the longest of length 1. Variances are p (1 - p). The means
      are not linear in the features.
    * ``diabetes`` (440 patients in 44 groups of 10, d = 11) is regression: in each round a group is drawn, its patients
      are the arms, and the one with the fastest progression is sought. The mean is the linear fit of the progression,
      scaled to [0, 1], on all ten whitened components and a one: linear, with ``theta_star``. The noise is the mean
      plus or minus the deviation of the patient's own residuals, the root mean square over 10 nearest neighbours.

    ``data_bandit(task).summary()`` has the misspecification, the regret of the best linear fit, and the total variance
    over K R^2.

    Args:
      task: ``digits``, ``breast_cancer``, ``wine`` or ``diabetes``.
      noise_scale: from 0 to 1; a reward is its mean plus this times its deviation from it. Means, arms and R stay.

    Returns:
      The TableBandit of :func:`jaxvar.table_bandit`, a pytree.

    References:
      Alpaydin, Kaynak (1998), Optical recognition of handwritten digits; Wolberg, Mangasarian, Street, Street (1995),
      Breast cancer Wisconsin (diagnostic); Aeberhard, Forina (1991), Wine; all of the UCI machine learning repository.
      Efron, Hastie, Johnstone, Tibshirani (2004), Least angle regression, for diabetes.
    """
    parameters.check_choice("task", task, TASKS)
    stored = _read(task)
    if "rows" in stored:
        return table_bandit(stored["rows"], stored["probabilities"], noise_scale=noise_scale)
    means = stored["features"].astype(float) @ stored["theta"].astype(float)
    return table_bandit(
        stored["features"], means, stored["variances"], theta_star=stored["theta"], noise_scale=noise_scale
    )


def _read(task: str) -> dict[str, Array]:
    """Return the arrays of a task's file, by name; raises a RuntimeError where the file is not the one we stored."""
    content = (_FOLDER / f"{task}.npz").read_bytes()
    if hashlib.sha256(content).hexdigest() != _DIGESTS[task]:
        raise RuntimeError(f"{_FOLDER / task}.npz is not the file that jaxvar came with; install jaxvar again")
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}
