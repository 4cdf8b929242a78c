"""Small loops as machine code where numba is installed; every user of them has a path that gives the same numbers.

A kernel is a plain Python function. Its machine code is kept on disk, so that only the first call on a machine
compiles. The environment variable CLEARFOLD_NUMBA=0 chooses the other paths.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any


def compiled(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """The function as machine code; None where numba is missing or not wanted: take the other path."""
    return None if os.environ.get("CLEARFOLD_NUMBA", "1") == "0" else _compiled(function)


@cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any] | None:
    try:
        import numba
    except ImportError:
        return None
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder to keep the machine code in: compiling each time would take longer than it saves
        return None
