"""How much a file may say that it holds: compressed, repeated and sparse values can be a thousand times its size."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from clearfold.errors import TableError

MOST = 2**30
RATIO = 200
"""A table may need a gigabyte, or so many times the size of its file."""


def check_declared(path: Path, n_bytes: int) -> None:
    """Refuse a file whose content would be far larger than the file itself, before it is unpacked."""
    if n_bytes > most_of(path):
        raise TableError(
            f"it says that it holds {n_bytes / 1e9:.3g} GB in a file of {path.stat().st_size:,} bytes: it is damaged, "
            "or made to fill the memory. Write it again without compression if it is real."
        )


def most_of(path: Path) -> int:
    """Bytes that the content of a file may have."""
    return max(MOST, RATIO * path.stat().st_size)


class Bounded(io.RawIOBase):
    """What is read of an unpacked stream, until it is more than the file may hold."""

    def __init__(self, file: Any, path: Path) -> None:
        self._file, self._path, self._came = file, path, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes."""
        count = int(self._file.readinto(buffer))
        self._came += count
        check_declared(self._path, self._came)
        return count

    def close(self) -> None:
        """With the stream below."""
        self._file.close()
        super().close()
