"""What class a sample seems to have: three votes, each honest for labelled rows, and one belief from all of them.

A vote is a table rows x classes of logits. `own` holds those of the fitted rows; for a labelled row it comes from
models that never saw its patient.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg, optimize
from scipy.special import log_softmax, softmax
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from clearfold.embedding.neighbors import neighbor_graph
from clearfold.embedding.samples import LEAST, Points
from clearfold.embedding.spectral import Matrix

N_FOLDS = 10
DAMPING = 0.9
"""How much of a label passes on to the neighbours."""
PRIOR_WEIGHTS = (2.0, 1.0)
"""Of the discriminant and of the forest; that of propagation is the unlabelled share."""


class Scaling:
    """NaN to the median, clipped at the 1 and 99 % quantiles, z-scores; all learned from the fitted rows."""

    def __init__(self, X: Matrix) -> None:
        empty = np.isnan(X).all(axis=0)
        filled = np.where(empty, 0.0, X)
        self.median = np.nanmedian(filled, axis=0)
        self.low, self.high = np.nanquantile(filled, [0.01, 0.99], axis=0)
        clipped = self._clipped(X)
        self.mean, deviation = clipped.mean(axis=0), clipped.std(axis=0)
        varies = deviation > np.maximum(LEAST, 1e-13 * np.abs(self.mean))
        self.inverse = np.where(varies, 1.0 / np.where(varies, deviation, 1.0), 0.0)

    def __call__(self, X: Matrix) -> Matrix:
        """Scaled rows; features that did not vary become 0."""
        return (self._clipped(X) - self.mean) * self.inverse

    def _clipped(self, X: Matrix) -> Matrix:
        return np.clip(np.where(np.isnan(X), self.median, X), self.low, self.high)


def folds(codes: Any, groups: Any, random: np.random.Generator) -> Any:
    """Fold of each labelled row: patients stay together, and every class is spread over the folds."""
    names, patients = np.unique(groups, return_inverse=True)
    counts = np.zeros((len(names), int(codes.max()) + 1), dtype=int)
    np.add.at(counts, (patients, codes), 1)
    order = random.permutation(len(names))
    order = order[np.argsort(counts.argmax(axis=1)[order], kind="stable")]
    place = np.empty(len(names), dtype=int)
    place[order] = np.arange(len(names)) % min(N_FOLDS, len(names))
    return place[patients]


class Discriminant:
    """Linear discriminant: Ledoit-Wolf covariance within classes, equal priors, over its out-of-fold deviation."""

    def __init__(self, Z: Matrix, codes: Any, groups: Any, random: np.random.Generator) -> None:
        known = codes >= 0
        rows, classes = Z[known], codes[known]
        self.n_classes = int(codes.max()) + 1
        fold = folds(classes, groups[known], random)
        out = np.empty((len(rows), self.n_classes))
        for number in np.unique(fold):
            left = fold == number
            coefficients, offset = discriminant(rows[~left], classes[~left], self.n_classes)
            out[left] = rows[left] @ coefficients + offset
        spread = float(out.std()) or 1.0
        coefficients, offset = discriminant(rows, classes, self.n_classes)
        self.coefficients, self.offset = coefficients / spread, offset / spread
        self.own = self(Z)
        self.own[known] = out / spread

    def __call__(self, Z: Matrix) -> Matrix:
        """Logits of new rows."""
        return Z @ self.coefficients + self.offset

    def parts(self, z: Matrix) -> Matrix:
        """What each feature adds to the logits of one row: features x classes."""
        return z[:, None] * self.coefficients


def discriminant(Z: Matrix, codes: Any, n_classes: int) -> tuple[Matrix, Matrix]:
    """Coefficients (features x classes) and offsets, both with mean 0 over classes; absent classes are left behind."""
    present = np.unique(codes)
    means = np.zeros((n_classes, Z.shape[1]))
    means[present] = [Z[codes == c].mean(axis=0) for c in present]
    directions = _whitened(Z - means[codes], means[present].T)
    offset = -0.5 * np.einsum("cj,jc->c", means[present], directions)
    coefficients, offsets = np.zeros((Z.shape[1], n_classes)), np.zeros(n_classes)
    coefficients[:, present], offsets[present] = directions, offset
    if len(present) < n_classes:
        absent = np.setdiff1d(np.arange(n_classes), present)
        coefficients[:, absent] = directions.mean(axis=1, keepdims=True)
        offsets[absent] = offset.mean() - 2 * (np.ptp(offset) + 1)
    return coefficients - coefficients.mean(axis=1, keepdims=True), offsets - offsets.mean()


def _whitened(residuals: Matrix, targets: Matrix) -> Matrix:
    """S^-1 targets, S = (1 - s) R'R / n + s mu I with Ledoit and Wolf's s, on the shorter side of R."""
    n, m = residuals.shape
    wide = m > n
    gram = residuals @ residuals.T if wide else residuals.T @ residuals
    total, squares = float(np.trace(gram)) / n, float(np.square(gram).sum()) / n**2
    mu = total / m or 1.0
    distance = squares - m * mu**2
    norms = np.einsum("ij,ij->i", residuals, residuals)
    share = min(1.0, max(0.0, (float(np.square(norms).sum()) / n**2 - squares / n) / distance)) if distance > 0 else 1.0
    ridge = max(share * mu, 1e-8 * mu)
    keep = (1 - share) / n
    if not wide:
        return linalg.solve(keep * gram + ridge * np.eye(m), targets, assume_a="pos")
    if keep == 0:
        return targets / ridge
    inner = linalg.solve(gram + ridge / keep * np.eye(n), residuals @ targets, assume_a="pos")
    return (targets - residuals.T @ inner) / ridge


class Forest:
    """4 (p - 1 / C): trees on bootstraps of patients, by turns random and best splits; out of bag for labelled rows."""

    def __init__(self, Z: Matrix, codes: Any, groups: Any, random: np.random.Generator, n_trees: int) -> None:
        known = np.flatnonzero(codes >= 0)
        self.n_classes = int(codes.max()) + 1
        names, patients = np.unique(groups[known], return_inverse=True)
        rows, classes = Z[known].astype(np.float32), codes[known]
        self.trees = []
        votes, times = np.zeros((len(known), self.n_classes)), np.zeros(len(known))
        for number in range(n_trees):
            drawn = np.bincount(random.integers(len(names), size=len(names)), minlength=len(names))
            kind = ExtraTreeClassifier if number % 2 == 0 else DecisionTreeClassifier
            tree = kind(max_features="sqrt", min_samples_leaf=2, random_state=int(random.integers(2**31)))
            at = np.repeat(np.arange(len(rows)), drawn[patients])
            tree.fit(rows[at], classes[at])
            self.trees.append((tree.tree_, _spread_values(tree, self.n_classes)))
            outside = np.flatnonzero(drawn[patients] == 0)
            if len(outside):
                votes[outside] += self._leaves(number, rows[outside])
                times[outside] += 1
        self.own = self(Z)
        honest = np.where(times[:, None] > 0, votes / np.maximum(times, 1)[:, None], 1.0 / self.n_classes)
        self.own[known] = 4 * (honest - 1.0 / self.n_classes)

    def __call__(self, Z: Matrix) -> Matrix:
        """Logits of new rows."""
        rows = Z.astype(np.float32)
        total = sum(self._leaves(number, rows) for number in range(len(self.trees)))
        return 4 * (np.asarray(total) / len(self.trees) - 1.0 / self.n_classes)

    def parts(self, z: Matrix) -> Matrix:
        """Change of the logits at every split on a feature, along one row's paths: features x classes."""
        parts = np.zeros((len(z), self.n_classes))
        row = z.astype(np.float32)
        for tree, values in self.trees:
            node, left, right = 0, tree.children_left, tree.children_right
            feature, threshold = tree.feature, tree.threshold
            while left[node] >= 0:
                split = feature[node]
                below = left[node] if row[split] <= threshold[node] else right[node]
                parts[split] += values[below] - values[node]
                node = below
        return 4 * parts / len(self.trees)

    def _leaves(self, number: int, rows: Any) -> Matrix:
        tree, values = self.trees[number]
        return values[tree.apply(rows)]


def _spread_values(tree: Any, n_classes: int) -> Matrix:
    """Class shares at every node, with a column for every class."""
    values = tree.tree_.value[:, 0, :]
    table = np.zeros((len(values), n_classes))
    table[:, tree.classes_] = values / values.sum(axis=1, keepdims=True)
    return table


class Propagation:
    """4 (p - 1 / C): labels passed on over the nearest-neighbour graph, (I - .9 P)^-1, each row without its patient."""

    def __init__(self, Z: Matrix, codes: Any, groups: Any, n_neighbors: int, rows: Any) -> None:
        self.n_classes, self.n_neighbors = int(codes.max()) + 1, n_neighbors
        self.samples = Points(Z[rows])
        graph = neighbor_graph(self.samples, n_neighbors)
        link = graph.matrix(np.ones(len(graph.edges))).toarray()
        passed = np.eye(len(rows)) - DAMPING * link / link.sum(axis=1, keepdims=True)
        known = np.flatnonzero(codes[rows] >= 0)
        sources = np.zeros((len(rows), len(known)))
        sources[known, np.arange(len(known))] = 1.0
        self.reach = linalg.solve(passed, sources)
        self.labels = np.equal.outer(codes[rows][known], np.arange(self.n_classes)).astype(float)
        self.groups = groups[rows][known]
        self.shares = _shares(self.reach @ self.labels)
        own = np.empty((len(Z), len(known)))
        own[rows] = self.reach
        outside = np.setdiff1d(np.arange(len(Z)), rows)
        if len(outside):
            own[outside] = self.reach[self._near(Z[outside])].mean(axis=1)
        honest = np.where((groups[:, None] == self.groups) & (codes >= 0)[:, None], 0.0, own)
        self.own = 4 * (_shares(honest @ self.labels) - 1.0 / self.n_classes)

    def __call__(self, Z: Matrix) -> Matrix:
        """Logits of new rows: the mean of their neighbours."""
        return 4 * (self.shares[self._near(Z)].mean(axis=1) - 1.0 / self.n_classes)

    def _near(self, Z: Matrix) -> Any:
        return self.samples.neighbors_of(Z, self.n_neighbors)[0]


def _shares(mass: Matrix) -> Matrix:
    total = mass.sum(axis=1, keepdims=True)
    return np.where(total > 0, mass / np.where(total > 0, total, 1.0), 1.0 / mass.shape[1])


def weigh(votes: list[Matrix], codes: Any, n_groups: int, prior: Matrix) -> Matrix:
    """Weights w >= 0 of votes for labelled rows: class-balanced log loss + |w - w0|^2 / g, then shrunk if too bold."""
    table = np.stack(votes)
    balance = 1.0 / (np.bincount(codes)[codes] * (codes.max() + 1))
    rows = np.arange(len(codes))

    def loss(w: Matrix) -> tuple[float, Matrix]:
        logits = np.tensordot(w, table, axes=1)
        slope = softmax(logits, axis=1)
        value = -float(balance @ log_softmax(logits, axis=1)[rows, codes])
        slope[rows, codes] -= 1.0
        return value, np.einsum("i,ic,kic->k", balance, slope, table)

    def held(w: Matrix) -> tuple[float, Matrix]:
        value, slope = loss(w)
        return value + float(np.square(w - prior).sum()) / n_groups, slope + 2 * (w - prior) / n_groups

    found = optimize.minimize(held, prior, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(votes)).x
    factor = optimize.minimize_scalar(
        lambda rho: loss(rho * found)[0] + 0.5 * rho**2 / n_groups, bounds=(0.0, 3.0), method="bounded"
    ).x
    return found * min(1.0, float(factor))
