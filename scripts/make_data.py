"""Make the tables of ``jv.data_bandit`` from the data sets that come with scikit-learn.

``python scripts/make_data.py [FOLDER]`` writes one file per task and prints its SHA-256, which belongs into
``jaxvar/environments/data_bandit.py``. Needs ``pip install '.[data]'``; the package itself does not.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

FOLDER = Path(__file__).parents[1] / "jaxvar" / "environments" / "data"
COMPONENTS = 8  # of the principal components of a classification task
NEIGHBOURS = 10  # whose squared residuals make a row's variance
GROUP = 10  # rows of the regression task that are arms of the same round
Arrays = dict[str, np.ndarray]


def shown_features(data: np.ndarray, components: int) -> np.ndarray:
    """Return a one and whitened principal components of ``data [N, .]``, no row longer than 1, [N, 1 + components]."""
    whitened = PCA(components, whiten=True, svd_solver="full").fit_transform(data)
    # The sign of a component is not determined; this one does not depend on the machine.
    whitened *= np.sign(whitened[np.abs(whitened).argmax(axis=0), np.arange(components)])
    rows = np.concatenate([np.ones((len(data), 1)), whitened], axis=1)
    return rows / np.linalg.norm(rows, axis=1).max()


def classification(load: str) -> Arrays:
    """Return rows ``[N, p]`` and class probabilities ``[N, K]`` by multinomial logistic regression on the rows."""
    data, labels = getattr(datasets, load)(return_X_y=True)
    scaled = data / 16 if load == "load_digits" else StandardScaler().fit_transform(data)
    rows = shown_features(scaled, COMPONENTS)
    whitened = rows[:, 1:] / rows[:, :1]
    fit = LogisticRegression(C=1.0, max_iter=10_000, tol=1e-8).fit(whitened, labels)
    return {"rows": rows, "probabilities": fit.predict_proba(whitened)}


def regression(load: str) -> Arrays:
    """Return groups of rows ``[N, K, d]``, the linear fit of the target ``[d]`` and variances ``[N, K]``."""
    data, target = getattr(datasets, load)(return_X_y=True)
    target = (target - target.min()) / np.ptp(target)
    rows = shown_features(data, data.shape[1])
    theta = np.linalg.lstsq(rows, target, rcond=None)[0]
    near = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(rows).kneighbors(rows, return_distance=False)
    variances = ((target - rows @ theta) ** 2)[near].mean(axis=1)
    num = len(rows) // GROUP
    groups = np.random.default_rng(0).permutation(len(rows))[: num * GROUP].reshape(num, GROUP)
    return {"features": rows[groups], "theta": theta, "variances": variances[groups]}


TASKS = {
    "digits": lambda: classification("load_digits"),
    "breast_cancer": lambda: classification("load_breast_cancer"),
    "wine": lambda: classification("load_wine"),
    "diabetes": lambda: regression("load_diabetes"),
}


def main(folder: Path = FOLDER) -> None:
    """Write all files into ``folder`` and print their digests."""
    for task, make in TASKS.items():
        path = folder / f"{task}.npz"
        np.savez_compressed(path, **{name: array.astype(np.float32) for name, array in make().items()})
        print(f'    "{task}": "{hashlib.sha256(path.read_bytes()).hexdigest()}",  # {path.stat().st_size:,} bytes')


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
