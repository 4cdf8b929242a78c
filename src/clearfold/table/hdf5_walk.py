"""Walks through an HDF5 file in a process of its own: `python hdf5_walk.py FILE MOST`.

The HDF5 library can loop for ever or crash on a damaged file, and a file can name others to be read in its place. Here
every attribute and every value is read once, in parts; what cannot be read, or must not be, ends this process and not
the one that asked. It imports nothing of clearfold, so that it starts quickly.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

PART = 2**24
"""Bytes that are read at once."""


def refusal(path: str, most: int) -> str | None:
    """Why a file must not be read, or None."""
    import h5py

    with suppress(ImportError):  # knows further compressions, where it is installed
        import_module("hdf5plugin")
    declared, seen = 0, set[Any]()
    with h5py.File(path, "r") as file:
        for node in _nodes(h5py, file):
            if isinstance(node, str):
                return node
            mark = h5py.h5o.get_info(node.id).addr
            if mark in seen:
                continue
            seen.add(mark)
            _ = {name: node.attrs[name] for name in node.attrs}
            if isinstance(node, h5py.Dataset):
                if node.external or node.is_virtual:
                    return f"its dataset {node.name} is kept in another file"
                declared += math.prod(node.shape or ()) * max(1, node.dtype.itemsize)
                if declared > most:
                    return f"it says that it holds {declared / 1e9:.3g} GB or more, far more than the file has"
                _read(node)
    return None


def _nodes(h5py: Any, group: Any) -> Iterator[Any]:
    """Every group and dataset; a text where a link leads out of the file."""
    waiting, seen = [group], set[Any]()
    while waiting:
        node = waiting.pop()
        yield node
        mark = h5py.h5o.get_info(node.id).addr
        if not isinstance(node, h5py.Group) or mark in seen:
            continue
        seen.add(mark)
        for name in node:
            link = node.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                yield f"its part {name!r} is kept in another file"
                return
            if isinstance(link, h5py.HardLink):  # a soft link leads to what is met anyway, or nowhere
                waiting.append(node[name])


def _read(dataset: Any) -> None:
    """Every value once."""
    if not dataset.shape:
        _ = dataset[()] if dataset.shape is not None else None
        return
    row = max(1, dataset.dtype.itemsize * math.prod(dataset.shape[1:]))
    step = max(1, PART // row)
    if dataset.chunks is not None:  # a chunk is unpacked as a whole
        step = max(step, dataset.chunks[0])
    for start in range(0, dataset.shape[0], step):
        _ = dataset[start : start + step]


def limited(seconds: int, memory: int) -> None:
    """No more time and memory than that."""
    try:
        import resource
    except ImportError:  # Windows has no such limits; there the one who asked watches the clock
        return
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    limited(int(sys.argv[3]), 2 * int(sys.argv[2]) + 2**31)
    try:
        told = {"refused": refusal(sys.argv[1], int(sys.argv[2]))}
    except MemoryError:
        told = {"refused": "it needs more memory than it should"}
    except ModuleNotFoundError:
        told = {"refused": None}
    except Exception as error:
        told = {"refused": f"{type(error).__name__}: {error}"}
    print(json.dumps(told))
