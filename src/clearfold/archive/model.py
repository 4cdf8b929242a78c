"""A fitted estimator as bytes and back, without pickle: loading builds data, and never runs what a file says.

    magic, format, length of header | header (JSON) | raw arrays | checksum

The header is a tree of plain values, arrays by number, and objects of KINDS: a fixed list of clearfold's classes and
a few of scikit-learn's, filled with attributes that are again such values. Nothing is compressed, so what is declared
cannot be larger than what is there. Trees of a forest are rebuilt from their arrays after every index was checked.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from hashlib import blake2b
from importlib.metadata import version
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.tree._tree import Tree

from clearfold.archive.restoring import ESTIMATORS, NAMES, PLAIN, Reader, node_fields
from clearfold.embedding.samples import Points
from clearfold.errors import ArchiveError

MAGIC = b"clearfold model\n"
FORMAT = 1
CHECKSUM = 16


def dump_model(estimator: Any) -> bytes:
    """A fitted embedding, or a pipeline that ends in one, as bytes for `load_model`."""
    if NAMES.get(type(estimator)) not in ESTIMATORS:
        raise ArchiveError(
            f"a {type(estimator).__name__} cannot be stored. Wanted is one of {', '.join(ESTIMATORS)}, fitted."
        )
    writer = _Writer()
    tree = writer.node(estimator, type(estimator).__name__)
    header = {"written_by": _versions(), "arrays": writer.listing, "model": tree}
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    body = [MAGIC, FORMAT.to_bytes(4, "little"), len(text).to_bytes(8, "little"), text, *writer.raw]
    digest = blake2b(digest_size=CHECKSUM)
    for part in body:
        digest.update(part)
    return b"".join([*body, digest.digest()])


def load_model(data: bytes) -> Any:
    """The estimator that `dump_model` was given; raises ArchiveError for anything else."""
    data = bytes(data)
    header, start = _header(data)
    try:
        reader = Reader(header["arrays"], memoryview(data)[start:-CHECKSUM])
        estimator = reader.value(header["model"])
        reader.check()
    except ArchiveError as error:
        raise ArchiveError(f"{error} {_written(header)}") from error
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise ArchiveError(f"The stored model cannot be read ({type(error).__name__}). {_written(header)}") from error
    if NAMES.get(type(estimator)) not in ESTIMATORS:
        raise ArchiveError(f"The stored model is no embedding. {_written(header)}")
    return estimator


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("clearfold", "scikit-learn", "numpy")}


def _written(header: Any) -> str:
    """Who wrote it and who reads it, so that a change of versions is seen."""
    wrote = header.get("written_by")
    wrote = wrote if isinstance(wrote, dict) else {}
    then = ", ".join(f"{str(name)[:30]} {str(text)[:30]}" for name, text in list(wrote.items())[:5]) or "unknown"
    now = ", ".join(f"{name} {text}" for name, text in _versions().items())
    return f"It was written by {then}; this is {now}. Fit the archive again, or use the versions that wrote it."


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    start = len(MAGIC) + 12
    if len(data) < start + CHECKSUM or data[: len(MAGIC)] != MAGIC:
        raise ArchiveError("This is not a stored model of clearfold. Fit the archive again.")
    number = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 4], "little")
    if number != FORMAT:
        raise ArchiveError(f"The stored model has format {number}; this clearfold reads {FORMAT}. Use a newer one.")
    if blake2b(memoryview(data)[:-CHECKSUM], digest_size=CHECKSUM).digest() != data[-CHECKSUM:]:
        raise ArchiveError("The stored model is damaged: its checksum does not fit. Fit the archive again.")
    stop = start + int.from_bytes(data[len(MAGIC) + 4 : start], "little")
    try:
        header = json.loads(data[start:stop])
    except (ValueError, RecursionError) as error:
        raise ArchiveError("The stored model has no readable header. Fit the archive again.") from error
    if stop > len(data) - CHECKSUM or not isinstance(header, dict) or not {"arrays", "model"} <= set(header):
        raise ArchiveError("The stored model has no complete header. Fit the archive again.")
    return header, stop


class _Writer:
    """Values to nodes of the header; arrays are put aside, each once."""

    def __init__(self) -> None:
        self.listing: list[Any] = []
        self.raw: list[bytes] = []
        self._number: dict[int, int] = {}
        self._kept: list[Any] = []  # so that an id stays that of one array

    def node(self, value: Any, where: str) -> Any:
        """What stands for a value in the header."""
        if type(value) in PLAIN:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, np.generic):
            return {"scalar": self._array(np.array(value), where)}
        if isinstance(value, np.dtype) and value.kind in "biuf":
            return {"dtype": value.str}
        if type(value) in (list, tuple):
            items = [self.node(item, f"{where}[{number}]") for number, item in enumerate(value)]
            return items if type(value) is list else {"tuple": items}
        if type(value) is dict:
            return self._dict(value, where)
        if isinstance(value, sparse.csr_array):
            parts = [self._array(part, where) for part in (value.data, value.indices, value.indptr)]
            return {"sparse": [*parts, list(value.shape)]}
        if isinstance(value, Tree):
            return self._tree(value, where)
        if type(value) in NAMES:
            state = value.__getstate__() if isinstance(value, Points) else vars(value)
            fields = {name: self.node(item, f"{where}.{name}") for name, item in state.items()}
            return {"object": NAMES[type(value)], "fields": fields}
        raise ArchiveError(
            f"{where} is a {type(value).__name__}, which cannot be stored. Give plain numbers and text as parameters "
            "(a whole number as random_state), and clearfold's embeddings."
        )

    def _dict(self, value: dict[Any, Any], where: str) -> Any:
        if value and all(type(key) is bytes and type(item) is int for key, item in value.items()):
            widths = {len(key) for key in value}
            if len(widths) == 1:  # marks of fitted rows: many, so not as text
                keys = np.frombuffer(b"".join(value), dtype=np.uint8).reshape(len(value), -1)
                return {"marks": [self._array(keys, where), self._array(np.array(list(value.values())), where)]}
        return {"dict": [[self._key(key, where), self.node(item, f"{where}[{key!r}]")] for key, item in value.items()]}

    def _key(self, key: Any, where: str) -> Any:
        return {"bytes": b64encode(key).decode()} if type(key) is bytes else self.node(key, where)

    def _array(self, array: Any, where: str) -> Any:
        if array.dtype.kind in "OUS":
            items = [self._word(item, where) for item in array.ravel().tolist()]
            return {"words": items, "kind": "O" if array.dtype.kind == "O" else array.dtype.str, "shape": array.shape}
        if array.dtype.kind not in "biuf" or type(array) is not np.ndarray:
            raise ArchiveError(f"{where} is an array of {array.dtype}, which cannot be stored.")
        if id(array) not in self._number:
            order: Any = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
            plain = array.astype(array.dtype.newbyteorder("<"), copy=False)
            self._number[id(array)] = len(self.listing)
            self._kept.append(array)
            self.listing.append([plain.dtype.str, list(array.shape), order])
            self.raw.append(plain.tobytes(order))
        return {"array": self._number[id(array)]}

    def _word(self, item: Any, where: str) -> Any:
        if type(item) is bytes:
            return {"bytes": b64encode(item).decode()}
        if isinstance(item, np.generic):
            item = item.item()
        if type(item) not in (*PLAIN, float):
            raise ArchiveError(f"{where} holds a {type(item).__name__}, which cannot be stored. Give text or numbers.")
        return self.node(item, where)

    def _tree(self, tree: Any, where: str) -> Any:
        state = tree.__getstate__()
        nodes = {name: self._array(np.ascontiguousarray(state["nodes"][name]), where) for name in node_fields()}
        values, classes = self._array(state["values"], where), self._array(np.asarray(tree.n_classes), where)
        return {"tree": nodes, "values": values, "n_classes": classes, "size": [tree.n_features, tree.max_depth]}
