"""What the commands about archives share: opening one, and never printing a password."""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from clearfold.errors import InputError

if TYPE_CHECKING:
    from clearfold.archive import Archive

SERVER = re.compile(r"postgres(?:ql)?://\S*", re.IGNORECASE)
ARCHIVE_HELP = "The archive: a file such as cases.clearfold, or postgresql://... (also from CLEARFOLD_ARCHIVE)."


class Embedding(StrEnum):
    """The embeddings of an archive, by their names on the command line."""

    belief = "belief"
    boosted = "boosted"
    boosted_distance = "boosted-distance"
    graph = "graph"
    pca = "pca"
    kernel_pca = "kernel-pca"
    isomap = "isomap"
    laplacian = "laplacian"
    lle = "lle"
    none = "none"


KINDS: dict[Embedding, tuple[str, dict[str, Any]]] = {
    Embedding.belief: ("BeliefSpectralEmbedding", {}),
    Embedding.boosted: ("BoostedGraphEmbedding", {"n_features": 12}),
    Embedding.boosted_distance: ("BoostedMetric", {"n_features": 12}),
    Embedding.graph: ("GraphEmbedding", {"n_components": "elbow"}),
    Embedding.pca: ("PCA", {"n_components": "elbow"}),
    Embedding.kernel_pca: ("KernelPCA", {"n_components": "elbow"}),
    Embedding.isomap: ("Isomap", {"n_components": "elbow", "n_neighbors": 10}),
    Embedding.laplacian: ("LaplacianEigenmap", {"n_components": "elbow", "n_neighbors": 10}),
    Embedding.lle: ("LocallyLinearEmbedding", {"n_components": "elbow", "n_neighbors": 10}),
}
"""Name -> class in `clearfold.embedding`, and its parameters."""


def made(kind: Embedding) -> Any:
    """The unfitted embedding of a name."""
    from clearfold import embedding as embeddings

    name, parameters = KINDS[kind]
    return getattr(embeddings, name)(**parameters)


def open_archive(where: str | None, *, create: bool = False) -> Archive:
    """The archive to read, or with `create` to write to."""
    from clearfold.archive import Archive

    if not where:
        raise InputError("No archive was named. Give --archive cases.clearfold, or postgresql://...")
    return Archive.open(where, create=create, read_only=not create)


def shown(where: str) -> str:
    """The archive's name without user, password or options."""
    if not SERVER.match(where):
        return where
    try:
        address = urlsplit(where)
        return f"postgresql://{address.hostname or ''}{address.path}"
    except ValueError:
        return "postgresql://..."


def command_line() -> str:
    """What was typed, without secrets."""
    words = [SERVER.sub(lambda found: shown(found[0]), word) for word in sys.argv[1:]]
    return " ".join(["clearfold", *words])


def refuse_server(word: object, place: str) -> None:
    """An address in the wrong place would be printed as the name of a file, with its password."""
    if re.match(r"postgres(ql)?:/", str(word), re.IGNORECASE):  # a path has lost one of the two slashes
        raise InputError(f"A server came as {place}. Name it with --archive.")
