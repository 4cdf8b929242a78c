"""What the child process can do: each task is a function of (report, named arguments) that gives plain numbers."""

from __future__ import annotations

from collections.abc import Callable

Report = Callable[[float | None, str], None]
"""Called with the share that is done (None: unknown) and what is being done."""


class Unusable(Exception):
    """What came cannot be used: an HTTP status and a sentence for the person who sent it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
