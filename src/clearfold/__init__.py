"""clearfold: manifolds one can see through.

Public names, listed by hand; each is imported when first used, so that `import clearfold` stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clearfold.archive import Archive
    from clearfold.embedding import residual_variance
    from clearfold.features import extract
    from clearfold.images import open_slide, read_image
    from clearfold.importance import EmbeddingImportance
    from clearfold.objects import segment_nuclei
    from clearfold.saliency import VoronoiSaliency
    from clearfold.table import Table, read_table, write_table

__version__ = "0.1.0.dev0"

__all__ = [
    "Archive",
    "EmbeddingImportance",
    "Table",
    "VoronoiSaliency",
    "__version__",
    "extract",
    "open_slide",
    "read_image",
    "read_table",
    "residual_variance",
    "segment_nuclei",
    "write_table",
]

_HOME = {
    "Archive": "clearfold.archive",
    "extract": "clearfold.features",
    "open_slide": "clearfold.images",
    "read_image": "clearfold.images",
    "segment_nuclei": "clearfold.objects",
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
