"""The embeddings by their names on the command line, and what is said of a fitted one."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from clearfold.errors import InputError, TableError

if TYPE_CHECKING:
    import pandas as pd

    from clearfold.table import Table


class Method(StrEnum):
    """The embeddings, by their names on the command line."""

    isomap = "isomap"
    pca = "pca"
    kernel_pca = "kernel-pca"
    laplacian = "laplacian"
    lle = "lle"
    graph = "graph"


class RankedMethod(StrEnum):
    """The embeddings that `clearfold rank` knows: all of `Method`, and one that sees the labels."""

    isomap = "isomap"
    pca = "pca"
    kernel_pca = "kernel-pca"
    laplacian = "laplacian"
    lle = "lle"
    graph = "graph"
    pls = "pls"


CLASSES: dict[Method, tuple[str, tuple[str, ...]]] = {
    Method.isomap: ("Isomap", ("n_neighbors",)),
    Method.pca: ("PCA", ()),
    Method.kernel_pca: ("KernelPCA", ("bandwidth",)),
    Method.laplacian: ("LaplacianEigenmap", ("n_neighbors", "bandwidth")),
    Method.lle: ("LocallyLinearEmbedding", ("n_neighbors",)),
    Method.graph: ("GraphEmbedding", ("bandwidth",)),
}
"""Method -> its class in `clearfold.embedding`, and which of the options it has."""


def chosen_embedding(method: Method, components: str, neighbors: int | None, bandwidth: str | None) -> Any:
    """The embedding that the options describe; an option that the method does not have is refused."""
    from clearfold import embedding as embeddings

    name, known = CLASSES[method]
    for option, value in (("n_neighbors", neighbors), ("bandwidth", bandwidth)):
        if value is not None and option not in known:
            having = ", ".join(other.value for other in Method if option in CLASSES[other][1])
            raise InputError(f"{method.value} has no {option}. Leave the option out, or use {having}.")
    values = {
        "n_neighbors": 10 if neighbors is None else neighbors,
        "bandwidth": number_or_word("--bandwidth", bandwidth or "median", float, "median"),
    }
    h = number_or_word("--components", components, int, "elbow")
    return getattr(embeddings, name)(n_components=h, **{option: values[option] for option in known})


def ranked_embedding(method: RankedMethod, components: str, neighbors: int | None, bandwidth: str | None) -> Any:
    """The embedding that the options describe, or partial least squares."""
    from sklearn.cross_decomposition import PLSRegression

    if method is not RankedMethod.pls:
        return chosen_embedding(Method(method.value), components, neighbors, bandwidth)
    if neighbors is not None or bandwidth is not None:
        raise InputError("pls has neither neighbors nor bandwidth. Leave the option out.")
    if not components.isdecimal() or int(components) < 1:
        raise InputError(f"--components {components} came; pls wants a whole number, 1 or more.")
    return PLSRegression(n_components=int(components), scale=False)


def number_or_word(option: str, text: str, kind: type[int] | type[float], word: str) -> float | str:
    """The value of an option that is a number or one word."""
    if text == word:
        return word
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise InputError(f"{option} {text} came; wanted is {what} or '{word}'.") from None


def matrix(cases: Table, raw: bool) -> pd.DataFrame:
    """The features, standardised unless raw; for missing values it names the option that drops them."""
    from sklearn.preprocessing import StandardScaler

    X = cases.X
    if missing := cases.n_missing:
        some = X.isna().any()
        raise TableError(
            f"{missing} values are missing, in {some.sum()} of {len(some)} features. Fill them, or give "
            "--drop-missing to drop features with over 5% missing values and then incomplete samples."
        )
    return X if raw else StandardScaler().set_output(transform="pandas").fit_transform(X)


def coordinate_table(cases: Table, coordinates: Any) -> pd.DataFrame:
    """Case id (else the row number, from 0) and the other roles of each sample, then coordinate_1, ..."""
    frame = cases.frame[list(dict.fromkeys(cases.roles.values()))].copy()
    if "case_id" not in cases.roles:
        frame.insert(0, "case_id", cases.frame.index.astype(str))
    for number, column in enumerate(coordinates.T, start=1):
        frame[f"coordinate_{number}"] = column
    return frame


def map_facts(cases: Table, embedding: Any, method: Method, raw: bool) -> dict[str, Any]:
    """What happened, in words that JSON and a table can hold; None where the method has no such thing."""
    fitted = getattr(embedding, "fitted_", embedding)
    bridges = getattr(fitted, "bridges_", None)
    X = cases.X
    return {
        "samples": len(cases),
        "features": len(cases.families),
        "constant features": int((X.min() == X.max()).sum()),
        "ignored columns": cases.ignored,
        "dropped": str(cases.dropped) if cases.dropped != type(cases.dropped)() else None,
        "standardised": not raw,
        "method": method.value,
        "landmarks": len(embedding.landmarks_) if fitted is not embedding else None,
        "neighbors": neighbors_of(fitted),
        "bandwidth": getattr(fitted, "bandwidth_", None),
        "coordinates": int(embedding.embedding_.shape[1]),
        "eigenvalues": [float(value) for value in fitted.eigenvalues_],
        "parts of the graph": getattr(fitted, "n_connected_components_", None),
        "bridges": None if bridges is None else len(bridges),
        "duplicate samples": getattr(fitted, "n_duplicates_", None),
    }


def neighbors_of(fitted: Any) -> int | None:
    """How many neighbours were used, None where the method has no such option."""
    options = next((known for name, known in CLASSES.values() if name == type(fitted).__name__), ())
    if "n_neighbors" not in options:
        return None
    return int(getattr(fitted, "n_neighbors_", fitted.n_neighbors))
