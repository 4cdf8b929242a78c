"""clearfold: manifolds one can see through.

Public names, listed by hand; each is imported when first used, so that `import clearfold` stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clearfold.embedding import residual_variance
    from clearfold.importance import EmbeddingImportance
    from clearfold.saliency import VoronoiSaliency
    from clearfold.table import Table, read_table, write_table

__version__ = "0.1.0.dev0"

__all__ = [
    "EmbeddingImportance",
    "Table",
    "VoronoiSaliency",
    "__version__",
    "read_table",
    "residual_variance",
    "write_table",
]

_HOME = {
    "EmbeddingImportance": "clearfold.importance",
    "VoronoiSaliency": "clearfold.saliency",
    "residual_variance": "clearfold.embedding",
    "Table": "clearfold.table",
    "read_table": "clearfold.table",
    "write_table": "clearfold.table",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'clearfold' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
