"""Choosing the number of coordinates, the neighbours and the bandwidth by residual variance."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from clearfold.embedding.estimator import SpectralEmbedder


def variance_curve(coordinates: Matrix, distances: Matrix) -> Matrix:
    """1 - rho(D_E, D_G) for the first 1, 2, ... coordinates (FINE eq. 19), rho over all pairs of samples."""
    n, half = len(coordinates), len(coordinates) // 2
    pairs = n * (n - 1) // 2
    ring = np.arange(n)[None, :] + np.arange(1, half + 1)[:, None]  # pairs (i, i + s): each once, in blocks of n
    target = np.ravel(distances[np.arange(n)[None, :], ring % n])[:pairs]
    target = target - target.mean()
    target /= np.sqrt(target @ target) or 1.0
    read = np.stack([target, np.ones(pairs)])
    squared, work, around = np.zeros((half, n)), np.empty((half, n)), np.empty(n + half)
    ahead = sliding_window_view(around, n)[1:]
    total = np.cumsum(n * np.square(coordinates - coordinates.mean(axis=0)).sum(axis=0))  # of squared lengths
    curve = np.empty(coordinates.shape[1])
    for h, column in enumerate(coordinates.T):
        around[:n], around[n:] = column, column[:half]
        np.subtract(ahead, column, out=work)
        np.multiply(work, work, out=work)
        squared += work
        length = np.sqrt(squared, out=work).ravel()[:pairs]
        alike, whole = read @ length
        spread = total[h] - whole**2 / pairs
        if spread < 1e-4 * total[h]:  # lengths so alike that the difference lost digits
            length -= whole / pairs
            alike, spread = target @ length, length @ length
        curve[h] = 1.0 - alike / (np.sqrt(spread) or 1.0)
    return curve


def elbow(curve: Matrix, n_samples: int) -> int:
    """Number of coordinates where the curve lies farthest below its chord, within [2, min(20, n/4)]."""
    most = min(20, max(2, n_samples // 4), len(curve))
    if most <= 2:
        return most
    head = curve[:most]
    chord = np.linspace(head[0], head[-1], most)
    return int(np.clip(np.argmax(chord - head) + 1, 2, most))


@dataclass(frozen=True)
class ResidualVariance:
    """Residual variance for 1, 2, ... coordinates, and the number at the elbow."""

    values: Matrix
    chosen: int

    def __repr__(self) -> str:
        at = self.values[self.chosen - 1]
        return f"ResidualVariance(elbow at {self.chosen} of {len(self.values)} coordinates: {at:.4f})"

    @property
    def minimum(self) -> int:
        """Number of coordinates at the bare minimum, as FINE prints it: often simply all of them."""
        return int(self.values.argmin()) + 1

    def frame(self) -> pd.DataFrame:
        """One row for each number of coordinates."""
        import pandas as pd

        return pd.DataFrame({"n_components": np.arange(1, len(self.values) + 1), "residual_variance": self.values})

    def plot(self, ax: Any = None) -> Any:
        """The curve with its elbow marked."""
        from clearfold.plot import curve

        return curve(self.values, self.chosen, ax=ax)


@dataclass(frozen=True)
class Search:
    """Residual variance of every setting, and the setting whose elbow is lowest.

    table : DataFrame with n_neighbors, bandwidth (where tried), n_components, residual_variance, is_elbow
    best : the parameters to set
    """

    table: pd.DataFrame
    best: dict[str, Any]
    estimator: SpectralEmbedder

    def __repr__(self) -> str:
        setting = ", ".join(f"{name}={value}" for name, value in self.best.items())
        return f"Search({len(self.table)} settings; best: {setting})"

    def best_estimator(self) -> SpectralEmbedder:
        """An unfitted embedding with the best setting."""
        from sklearn.base import clone

        return clone(self.estimator).set_params(**self.best)

    def plot(self, ax: Any = None) -> Any:
        """Residual variance against the number of coordinates, a line for each other setting."""
        from clearfold.plot import lines

        names = [name for name in ("n_neighbors", "bandwidth") if name in self.table]
        if not names:
            return lines(self.table, "n_components", "residual_variance", ax=ax)
        setting = [", ".join(f"{name}={row[name]}" for name in names) for row in self.table.to_dict("records")]
        return lines(self.table.assign(setting=setting), "n_components", "residual_variance", "setting", ax=ax)


def residual_variance(embedding: SpectralEmbedder, X: Any, max_components: int | None = None) -> ResidualVariance:
    """Residual variance 1 - rho(D_E, D_G) of an embedding of X with 1, 2, ... coordinates, and its elbow.

    D_G are Euclidean distances for PCA, path lengths for Isomap, kernel-induced distances otherwise.
    The bare minimum tends to all coordinates; the elbow is the choice that means something.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from clearfold.embedding import PCA
    >>> residual_variance(PCA(), load_iris().data)
    ResidualVariance(elbow at 2 of 4 coordinates: 0.0016)
    """
    from sklearn.base import clone

    embedding = clone(embedding)
    samples = embedding._samples(X)
    curve = _curve(embedding, samples.remember_distances(), max_components or samples.size)
    return ResidualVariance(curve, elbow(curve, samples.size))


def search(
    embedding: SpectralEmbedder,
    X: Any,
    *,
    n_neighbors: Any = None,
    bandwidth: Any = None,
    max_components: int = 20,
) -> Search:
    """Residual variance over all settings of neighbours, bandwidth and number of coordinates.

    Distances are computed once, paths once for each number of neighbours, eigenvectors once for each pair
    (neighbours, bandwidth); numbers of coordinates share them all. n^2 memory.

    Parameters
    ----------
    embedding : an unfitted embedding; its other parameters stay as they are
    n_neighbors, bandwidth : values to try; only where the embedding has such a parameter
    max_components : largest number of coordinates to try
    """
    from sklearn.base import clone

    grid = {
        name: list(values)
        for name, values in (("n_neighbors", n_neighbors), ("bandwidth", bandwidth))
        if values is not None
    }
    unknown = [name for name in grid if name not in embedding.get_params()]
    if unknown or not all(grid.values()):
        raise InputError(
            f"a search over {sorted(grid)} came for {type(embedding).__name__}, "
            f"which has {sorted(embedding.get_params())}. "
            "Give values only for parameters that the embedding has, and at least one for each."
        )
    return search_samples(embedding, clone(embedding)._samples(X).remember_distances(), grid, max_components)


def search_samples(
    embedding: SpectralEmbedder, samples: Any, grid: dict[str, list[Any]], max_components: int, rule: str = "elbow"
) -> Search:
    """`search` over samples that may be shared by several searches; rule "elbow", or "minimum" as FINE prints it."""
    import pandas as pd

    settings = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    kind, parameters = type(embedding), embedding.get_params(deep=False)
    curves = [_curve(kind(**{**parameters, **setting}), samples, max_components) for setting in settings]
    sizes = [len(curve) for curve in curves]
    elbows = np.repeat([elbow(curve, samples.size) for curve in curves], sizes)
    which = np.repeat(np.arange(len(settings)), sizes)
    counts, values = np.concatenate([np.arange(1, size + 1) for size in sizes]), np.concatenate(curves)
    first = int(np.where((counts == elbows) | (rule != "elbow"), values, np.inf).argmin())
    best = {**settings[which[first]], "n_components": int(counts[first])}
    columns = {name: [settings[i][name] for i in which] for name in grid}
    table = {**columns, "n_components": counts, "residual_variance": values, "is_elbow": counts == elbows}
    return Search(pd.DataFrame(table), best, embedding)


def _curve(embedding: SpectralEmbedder, samples: Any, most: int) -> Matrix:
    operator = embedding._operator(samples)
    distances = embedding._approximated_distances(operator, samples)
    spectrum = operator.decompose(min(most, samples.size))
    embedding._check_rank(1, spectrum.rank)
    return variance_curve(spectrum.coordinates[:, :most], distances)
