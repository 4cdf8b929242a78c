"""Belief spectral embedding: neighbours and class belief in one graph. The default for archives."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from clearfold.embedding.belief_votes import PRIOR_WEIGHTS, Discriminant, Forest, Propagation, Scaling, weigh
from clearfold.embedding.distances import blocks
from clearfold.embedding.estimator import checked, in_range
from clearfold.embedding.metric import read_labels
from clearfold.embedding.operator import Normalised
from clearfold.embedding.precision import Separation, separation, warn_of_strangers
from clearfold.embedding.samples import Points
from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

BELIEF_SHARE = 0.8
"""Of the affinity; the rest is nearness."""


class BeliefSpectralEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """W = .2 a / mean(a) + .8 b / mean(b): a = exp(-d^2 / (2 r_i r_j)) nearness, b = p_i . p_j same-class belief.

    Eigenvectors of D^-1/2 W D^-1/2 without the trivial one; a sample with features x and belief p is placed at
    lambda^-1/2 W(x, p) Y / d(x, p), brought to unit length: rank by cosine, or by Euclidean distance, which is the
    same. The belief p is a softmax of a linear discriminant, a forest and, when some labels are unknown, label
    propagation, weighted by what they predict for patients they have not seen.

    Parameters
    ----------
    n_components : coordinates; None for max(20, classes + 10), as many as there are
    eta : a fitted row with a known label has the belief (1 - eta) p + eta e, p from models that never saw its patient,
        e its label. 0 keeps figures of the archive itself free of its labels
    n_landmarks : at most so many rows, drawn at random, make the graph; the others are placed
    n_neighbors : r is the distance to this neighbour
    n_trees : of the forest
    random_state : seed of folds, trees and landmarks

    Attributes
    ----------
    embedding_ : (n, h) unit vectors; eigenvalues_ : (h,)
    classes_ : the labels; belief_ : (n, classes), the beliefs with which rows were placed
    out_of_fold_belief_ : the same before labels were mixed in
    weights_ : of the votes {"discriminant", "forest", "propagation"}
    landmarks_ : rows that make the graph

    Notes
    -----
    Missing values are allowed (the median takes their place). `transform` gives a row that coincides with a fitted one
    its stored coordinates, which know its label if eta > 0; every other row is placed by its features alone.
    A forest's posterior ranked by p.p is as good where only the class counts; the graph keeps what labels do not name.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> e = BeliefSpectralEmbedding(n_trees=40).fit(X[::2], y[::2])
    >>> e.transform(X[1::2]).shape
    (284, 20)
    """

    def __init__(
        self,
        *,
        n_components: int | None = None,
        eta: float = 0.5,
        n_landmarks: int = 2000,
        n_neighbors: int = 10,
        n_trees: int = 200,
        random_state: int | None = 0,
    ) -> None:
        self.n_components = n_components
        self.eta = eta
        self.n_landmarks = n_landmarks
        self.n_neighbors = n_neighbors
        self.n_trees = n_trees
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Learn beliefs from the labelled rows and coordinates of all.

        Parameters
        ----------
        X : array or DataFrame of shape (n, m), NaN allowed
        y : labels, -1 or missing where unknown
        groups : patient of each row; every row its own if None
        """
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None. Give labels.")
        X = self._features(X, reset=True, least=4)
        self.classes_, codes = read_labels(y, len(X))
        groups = _patients(groups, codes, self.classes_)
        self._check_settings(len(X))
        random = np.random.default_rng(self.random_state)
        self._scaling = Scaling(X)
        self._Z = self._scaling(X)
        if not self._Z.any():
            raise InputError("all samples are equal: there is nothing to embed. Check that X holds features that vary.")
        self._learn(codes, groups, random)
        self._decompose(random)
        self._known = {_mark(row): number for number, row in reversed(list(enumerate(X)))}
        self._codes = codes
        self.embedding_ = self._placed(self._Z, self.belief_, own=True)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Matrix:
        """`fit`, then the coordinates of the same rows."""
        return self.fit(X, y, **fit_params).embedding_

    def transform(self, X: Any) -> Matrix:
        """Unit vectors of new rows, each by its own features; stored ones for rows that coincide with a fitted row."""
        check_is_fitted(self, "embedding_")
        X = self._features(X, reset=False)
        Z = self._scaling(X)
        coordinates = self._placed(Z, self._believed(Z))
        for row, number in enumerate(self._stored(X)):
            if number is not None:
                coordinates[row] = self.embedding_[number]
        return coordinates

    def belief(self, X: Any) -> Matrix:
        """Probability of each class for new rows, by their features alone."""
        check_is_fitted(self, "embedding_")
        return self._believed(self._scaling(self._features(X, reset=False)))

    def separation(self, X: Any, y: Any) -> Separation:
        """How well classes separate among the fitted rows, and among these other ones."""
        check_is_fitted(self, "embedding_")
        labels = np.where(self._codes < 0, "", self.classes_[self._codes].astype(str)).astype(object)
        labels[self._codes < 0] = None
        warn_of_strangers(self.classes_, y)
        return separation(self.embedding_, labels, np.asarray(self.transform(X)), y)

    def reasons(self, query: Any, hit: Any) -> pd.DataFrame:
        """Why a hit was found: features with what they say for the shared class and for likeness, strongest first.

        Parameters
        ----------
        query : the query's features; hit : the hit's features, or the number of a fitted row

        Returns
        -------
        DataFrame feature, why_same_class, how_alike. `why_same_class` adds up (with a constant) to the query's logit
        of the class that both most likely share, by the discriminant and the forest; `how_alike`, never above 0, adds
        up to log a, nearness. They explain the affinity of the two; the cosine follows it, not exactly.
        """
        import pandas as pd

        check_is_fitted(self, "embedding_")
        x, z = self._one(query)
        other, z_hit = (None, self._Z[hit]) if isinstance(hit, int | np.integer) else self._one(hit)
        number = int(hit) if other is None else self._stored(other)[0]
        belief = self._believed(z_hit[None])[0] if number is None else self.belief_[number]
        shared = int((self._believed(z[None])[0] * belief).argmax())
        logits = self.weights_["discriminant"] * self._votes["discriminant"].parts(z)
        logits += self.weights_["forest"] * self._votes["forest"].parts(z)
        reach = self._reach(self._landmarks.squared_to(np.stack([z, z_hit])))
        alike = -np.square(z - z_hit) / (2 * reach[0] * reach[1])
        names = getattr(self, "feature_names_in_", np.array([f"x{i}" for i in range(x.shape[1])]))
        table = pd.DataFrame({"feature": names, "why_same_class": logits[:, shared], "how_alike": alike})
        table = table.sort_values("why_same_class", ascending=False, kind="stable", ignore_index=True)
        table.attrs["shared_class"] = self.classes_[shared]
        return table

    def _learn(self, codes: Any, groups: Any, random: np.random.Generator) -> None:
        """Votes, their weights, and the beliefs of the fitted rows."""
        known = codes >= 0
        self._votes: dict[str, Any] = {
            "discriminant": Discriminant(self._Z, codes, groups, random),
            "forest": Forest(self._Z, codes, groups, random, self.n_trees),
        }
        prior = list(PRIOR_WEIGHTS)
        if not known.all():
            rows = _some(known, 2 * self.n_landmarks, random)
            self._votes["propagation"] = Propagation(self._Z, codes, groups, self.n_neighbors_, rows)
            prior.append(1.0 - known.mean())
        own = [vote.own for vote in self._votes.values()]
        n_groups = len(np.unique(groups[known]))
        weights = weigh([table[known] for table in own], codes[known], n_groups, np.array(prior))
        self.weights_ = dict(zip(self._votes, weights.tolist(), strict=True))
        self.out_of_fold_belief_ = softmax(np.tensordot(weights, np.stack(own), axes=1), axis=1)
        self.belief_ = self.out_of_fold_belief_.copy()
        hot = np.equal.outer(codes[known], np.arange(len(self.classes_)))
        self.belief_[known] = (1 - self.eta) * self.belief_[known] + self.eta * hot

    def _decompose(self, random: np.random.Generator) -> None:
        """The graph of the landmarks and its eigenvectors."""
        n = len(self._Z)
        count = min(self.n_landmarks, n)
        self.landmarks_ = np.sort(random.choice(n, count, replace=False)) if count < n else np.arange(n)
        self._landmarks = Points(self._Z[self.landmarks_])
        squared = self._landmarks.squared()
        self._radii = self._reach(squared + np.where(np.eye(count, dtype=bool), np.inf, 0.0))
        near = np.exp(-squared / (2 * self._radii[:, None] * self._radii))
        belief = self.belief_[self.landmarks_]
        alike = belief @ belief.T
        self._means = float(near.mean()), float(alike.mean())
        wanted = self.n_components or max(20, len(self.classes_) + 10)
        operator = Normalised(self._mixed(near, alike))
        spectrum = operator.decompose(min(wanted, count - 2))
        if self.n_components is not None and spectrum.rank < self.n_components:
            raise InputError(
                f"n_components={self.n_components} came, but these samples (n_features = {self.n_features_in_}) have "
                f"only {spectrum.rank}. Set n_components to at most that, or to None."
            )
        self.eigenvalues_ = spectrum.values
        self._rule = operator.rule(spectrum)

    def _mixed(self, near: Matrix, alike: Matrix) -> Matrix:
        return (1 - BELIEF_SHARE) / self._means[0] * near + BELIEF_SHARE / self._means[1] * alike

    def _placed(self, Z: Matrix, belief: Matrix, *, own: bool = False) -> Matrix:
        """Unit vectors of rows with a belief; `own` are the fitted rows, where a landmark is no neighbour of itself."""
        place = np.full(len(self._Z), -1)
        place[self.landmarks_] = np.arange(len(self.landmarks_))
        coordinates = np.empty((len(Z), len(self.eigenvalues_)))
        fitted = self.belief_[self.landmarks_]
        for rows in blocks(len(Z), self._landmarks.size):
            squared = self._landmarks.squared_to(Z[rows])
            radii = self._reach(squared)
            if own:
                at = place[rows]
                radii[at >= 0] = self._radii[at[at >= 0]]
            near = np.exp(-squared / (2 * radii[:, None] * self._radii))
            coordinates[rows] = self._rule(self._mixed(near, belief[rows] @ fitted.T)) * np.sqrt(self.eigenvalues_)
        length = np.linalg.norm(coordinates, axis=1, keepdims=True)
        return coordinates / np.where(length > 0, length, 1.0)

    def _reach(self, squared: Matrix) -> Matrix:
        """Distance to the n_neighbors-th landmark, not quite 0 where samples coincide."""
        reach = np.sqrt(np.partition(squared, self.n_neighbors_ - 1, axis=1)[:, self.n_neighbors_ - 1])
        return np.maximum(reach, 1e-6 * np.sqrt(self._Z.shape[1]))

    def _believed(self, Z: Matrix) -> Matrix:
        return softmax(sum(self.weights_[name] * vote(Z) for name, vote in self._votes.items()), axis=1)

    def _stored(self, X: Matrix) -> list[int | None]:
        """Number of the fitted row that each row coincides with."""
        return [self._known.get(_mark(row)) for row in X]

    def _one(self, row: Any) -> tuple[Matrix, Matrix]:
        """One row, as it came and scaled."""
        table = np.asarray(row, dtype=float).reshape(1, -1)
        if table.shape[1] != self.n_features_in_:
            raise InputError(f"a row of {table.shape[1]} features came; {self.n_features_in_} are wanted, as in fit.")
        return table, self._scaling(table)[0]

    def _check_settings(self, n_samples: int) -> None:
        if not (isinstance(self.eta, int | float) and 0 <= self.eta <= 1):
            raise InputError(f"eta={self.eta!r} came; a number from 0 to 1 is wanted.")
        for name, least in (("n_landmarks", 4), ("n_neighbors", 1), ("n_trees", 2)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
                raise InputError(f"{name}={value!r} came; a whole number of at least {least} is wanted.")
        self.n_neighbors_ = min(self.n_neighbors, min(n_samples, self.n_landmarks) - 1)

    def _features(self, X: Any, *, reset: bool, least: int = 1) -> Matrix:
        options: dict[str, Any] = {"accept_sparse": False, "ensure_all_finite": "allow-nan"}
        table: Matrix = in_range(checked(self, X, reset=reset, least=least, **options))
        return table

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags


def _mark(row: Matrix) -> bytes:
    """Equal for equal rows."""
    return blake2b((row + 0.0).tobytes(), digest_size=16).digest()


def _patients(groups: Any, codes: Any, classes: Any) -> Any:
    """Patient number of each row; every class needs two patients, or no belief could be honest."""
    groups = np.arange(len(codes)) if groups is None else np.asarray(groups)
    if groups.shape != codes.shape:
        raise InputError(
            f"groups of shape {groups.shape} came for {len(codes)} samples. Give one patient for each row."
        )
    groups = np.unique(groups.astype(str) if groups.dtype == object else groups, return_inverse=True)[1]
    for code, name in enumerate(classes):
        if len(np.unique(groups[codes == code])) < 2:
            raise InputError(
                f"every labelled sample of class {name} comes from one patient: what is the patient's cannot be told "
                "from what is the class's. Add patients of that class, or merge it with another."
            )
    return groups


def _some(known: Any, most: int, random: np.random.Generator) -> Any:
    """At most so many rows, labelled ones first."""
    order = random.permutation(len(known))
    return np.sort(order[np.argsort(~known[order], kind="stable")][:most])
