"""Values of a stored model from its header: only known forms, only classes of a fixed list, every index checked."""

from __future__ import annotations

import inspect
import math
from base64 import b64decode
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from sklearn.tree._tree import Tree

from clearfold.embedding import (
    PCA,
    BeliefSpectralEmbedding,
    BoostedGraphEmbedding,
    BoostedMetric,
    GraphEmbedding,
    Isomap,
    KernelPCA,
    LandmarkEmbedding,
    LaplacianEigenmap,
    LocallyLinearEmbedding,
)
from clearfold.embedding.belief_votes import Discriminant, Forest, Propagation, Scaling
from clearfold.embedding.metric import GammaLearner, StumpLearner
from clearfold.embedding.operator import _EigenRow, _Nystrom, _Projection
from clearfold.embedding.samples import Distances, Points
from clearfold.errors import ArchiveError

DEEPEST = 60
"""Nodes within nodes."""

ESTIMATORS: dict[str, type] = {
    "PCA": PCA,
    "KernelPCA": KernelPCA,
    "Isomap": Isomap,
    "LaplacianEigenmap": LaplacianEigenmap,
    "LocallyLinearEmbedding": LocallyLinearEmbedding,
    "GraphEmbedding": GraphEmbedding,
    "LandmarkEmbedding": LandmarkEmbedding,
    "BoostedMetric": BoostedMetric,
    "BoostedGraphEmbedding": BoostedGraphEmbedding,
    "BeliefSpectralEmbedding": BeliefSpectralEmbedding,
    "sklearn.Pipeline": Pipeline,
    "sklearn.StandardScaler": StandardScaler,
    "sklearn.RobustScaler": RobustScaler,
    "sklearn.MinMaxScaler": MinMaxScaler,
    "sklearn.SimpleImputer": SimpleImputer,
}
KINDS: dict[str, type] = ESTIMATORS | {
    "Points": Points,
    "Distances": Distances,
    "Projection": _Projection,
    "Nystrom": _Nystrom,
    "EigenRow": _EigenRow,
    "GammaLearner": GammaLearner,
    "StumpLearner": StumpLearner,
    "Scaling": Scaling,
    "Discriminant": Discriminant,
    "Forest": Forest,
    "Propagation": Propagation,
}
NAMES = {kind: name for name, kind in KINDS.items()}
PLAIN = (str, bool, int, type(None))


class Reader:
    """Nodes of the header to values; everything that leaves the known forms raises."""

    def __init__(self, listing: Any, raw: memoryview) -> None:
        self._arrays = _slices(listing, raw)
        self._made: dict[int, Any] = {}
        self._forests: list[Forest] = []
        self._wide_enough: list[Forest] = []

    def value(self, node: Any, depth: int = 0) -> Any:
        """The value that a node stands for."""
        if depth > DEEPEST:
            raise ArchiveError("The stored model is nested too deeply.")
        if isinstance(node, list):
            return [self.value(item, depth + 1) for item in node]
        if not isinstance(node, dict):
            return node
        form = next((name for name in _FORMS if name in node), None)
        if form is None:
            raise ArchiveError(f"The stored model has an unknown part ({', '.join(map(str, node))[:60]}).")
        return _FORMS[form](self, node, depth)

    def check(self) -> None:
        """A forest reads memory at the features its trees name: only where rows are known to be as wide."""
        if len(self._wide_enough) != len(self._forests):
            raise ArchiveError("The stored model has a forest where none belongs.")

    def _tuple(self, node: Any, depth: int) -> Any:
        return tuple(self.value(node["tuple"], depth))

    def _float(self, node: Any, depth: int) -> float:
        return float(node["float"])

    def _bytes(self, node: Any, depth: int) -> bytes:
        return b64decode(node["bytes"], validate=True)

    def _dict(self, node: Any, depth: int) -> Any:
        return {self.value(key, depth + 1): self.value(item, depth + 1) for key, item in node["dict"]}

    def _marks(self, node: Any, depth: int) -> Any:
        keys, numbers = (self.value(part, depth + 1) for part in node["marks"])
        if keys.dtype != np.uint8 or keys.ndim != 2 or numbers.shape != keys.shape[:1]:
            raise ArchiveError("The stored model has marks of no known form.")
        return dict(zip((key.tobytes() for key in keys), numbers.tolist(), strict=True))

    def _dtype(self, node: Any, depth: int) -> Any:
        return _numeric(node["dtype"])

    def _scalar(self, node: Any, depth: int) -> Any:
        return self.value(node["scalar"], depth + 1)[()]

    def _array(self, node: Any, depth: int) -> Any:
        number = node["array"]
        if not isinstance(number, int) or not 0 <= number < len(self._arrays):
            raise ArchiveError("The stored model names an array that is not there.")
        if number not in self._made:
            dtype, shape, order, raw = self._arrays[number]
            flat = np.frombuffer(raw, dtype=np.uint8).astype(bool) if dtype.kind == "b" else np.frombuffer(raw, dtype)
            self._made[number] = np.array(flat.reshape(shape, order=order), dtype.newbyteorder("="), order=order)
        return self._made[number]

    def _words(self, node: Any, depth: int) -> Any:
        kind, shape = node["kind"], tuple(node["shape"])
        items = [self.value(item, depth + 1) for item in node["words"]]
        if any(type(item) not in (*PLAIN, float, bytes) for item in items) or math.prod(shape) != len(items):
            raise ArchiveError("The stored model has words of no known form.")
        if kind == "O":
            array = np.empty(len(items), dtype=object)
            array[:] = items
        elif kind[1:2] in ("U", "S"):
            array = np.array(items, dtype=kind[1])  # as wide as the longest word, not as wide as the file says
        else:
            raise ArchiveError(f"The stored model has an array of {kind!r:.20}.")
        return array.reshape(shape)

    def _sparse(self, node: Any, depth: int) -> Any:
        *parts, shape = node["sparse"]
        table = sparse.csr_array(tuple(self.value(part, depth + 1) for part in parts), shape=tuple(shape))
        table.check_format(full_check=True)
        return table

    def _tree(self, node: Any, depth: int) -> Any:
        n_features, max_depth = node["size"]
        fields = {name: self.value(part, depth + 1) for name, part in node["tree"].items()}
        classes, values = self.value(node["n_classes"], depth + 1), self.value(node["values"], depth + 1)
        if set(fields) != set(node_fields()):
            raise ArchiveError("The installed scikit-learn describes trees in another way than the stored model.")
        return _checked_tree(fields, values, classes, int(n_features), int(max_depth))

    def _object(self, node: Any, depth: int) -> Any:
        kind = KINDS.get(node["object"]) if isinstance(node["object"], str) else None
        if kind is None:
            raise ArchiveError(f"The stored model names {node['object']!r:.60}, which is not on the list of classes.")
        fields = {name: self.value(item, depth + 1) for name, item in node["fields"].items()}
        hidden = [name for name in fields if name.startswith("__") or callable(getattr(kind, name, None))]
        if hidden:
            raise ArchiveError(f"The stored model would replace {kind.__name__}.{hidden[0]:.40}.")
        made: Any = object.__new__(kind)
        vars(made).update(fields)
        if isinstance(made, BaseEstimator):
            vars(made).update({name: value for name, value in _defaults(kind).items() if name not in fields})
        if (
            isinstance(made, Points | Distances)
            and made.size != (made.X if isinstance(made, Points) else made.D).shape[0]
        ):
            raise ArchiveError("The stored model has samples of another number than it says.")
        if isinstance(made, Forest):
            self._forests.append(made)
        if isinstance(made, BeliefSpectralEmbedding):
            self._wide_enough.append(_known_forest(made))
        return made


_FORMS: dict[str, Any] = {
    "object": Reader._object,
    "tree": Reader._tree,
    "array": Reader._array,
    "scalar": Reader._scalar,
    "words": Reader._words,
    "tuple": Reader._tuple,
    "dict": Reader._dict,
    "marks": Reader._marks,
    "float": Reader._float,
    "bytes": Reader._bytes,
    "dtype": Reader._dtype,
    "sparse": Reader._sparse,
}


def _numeric(text: Any) -> Any:
    if not isinstance(text, str) or len(text) > 8:
        raise ArchiveError("The stored model has an array of no known type.")
    dtype = np.dtype(text)
    if dtype.kind not in "biuf":
        raise ArchiveError(f"The stored model has an array of {text}; numbers are wanted.")
    return dtype


def _slices(listing: Any, raw: memoryview) -> list[Any]:
    """Type, shape, order and bytes of every array; together they are exactly what is there."""
    found, start = [], 0
    for text, shape, order in listing:
        dtype = _numeric(text)
        whole = all(type(length) is int and length >= 0 for length in shape) and len(shape) <= 4
        stop = start + dtype.itemsize * math.prod(shape) if whole else len(raw) + 1
        if stop > len(raw) or order not in ("C", "F"):
            raise ArchiveError("The stored model declares more than it holds.")
        found.append((dtype, tuple(shape), order, raw[start:stop]))
        start = stop
    if start != len(raw):
        raise ArchiveError("The stored model holds more than it declares.")
    return found


def _checked_tree(fields: Any, values: Any, classes: Any, n_features: int, max_depth: int) -> Any:
    """A tree whose children come after their parents and whose features exist, so that no path leaves its arrays."""
    count = len(values)
    left, right, feature = (fields[name] for name in ("left_child", "right_child", "feature"))
    if any(part.shape != (count,) or part.dtype.kind not in "iufb" for part in fields.values()) or not count:
        raise ArchiveError("The stored model has a tree of no known form.")
    inner = left >= 0
    here = np.arange(count)
    sound = (
        classes.ndim == 1
        and len(classes) == 1
        and values.shape == (count, 1, int(classes[0]))
        and values.dtype == np.float64
        and all(part.dtype == np.int64 for part in (left, right, feature, classes))
        and bool((left[inner] > here[inner]).all() and (left[inner] < count).all())
        and bool((right[inner] > here[inner]).all() and (right[inner] < count).all())
        and bool((left[~inner] == -1).all() and (right[~inner] == -1).all())
        and bool((feature[inner] >= 0).all() and (feature[inner] < n_features).all())
    )
    if not sound:
        raise ArchiveError("The stored model has a tree with a path that leads nowhere.")
    tree = _empty_tree(n_features, classes.astype(np.intp))
    nodes = np.zeros(count, dtype=tree.__getstate__()["nodes"].dtype)
    for name, part in fields.items():
        nodes[name] = part
    tree.__setstate__({"max_depth": max_depth, "node_count": count, "nodes": nodes, "values": values})
    return tree


def _known_forest(made: Any) -> Forest:
    """The forest of a belief embedding, its trees no wider than the rows that `transform` lets through."""
    forest = vars(made)["_votes"]["forest"]
    width = made.n_features_in_
    if type(width) is not int or any(tree.n_features > width for tree, _ in forest.trees):
        raise ArchiveError("The stored model has trees over features that it does not have.")
    return forest


def _defaults(kind: type) -> dict[str, Any]:
    """Constructor defaults: for parameters that are newer than the file."""
    known = inspect.signature(kind).parameters.values()
    return {parameter.name: parameter.default for parameter in known if parameter.default is not parameter.empty}


def node_fields() -> tuple[str, ...]:
    """Names of what a node of a tree holds in the installed scikit-learn."""
    return tuple(_empty_tree(1, np.array([1], dtype=np.intp)).__getstate__()["nodes"].dtype.names)


def _empty_tree(n_features: int, n_classes: Any) -> Any:
    return Tree(n_features, n_classes, len(n_classes))
