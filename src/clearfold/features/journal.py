"""The journal of an extraction: what is done, on disk after each image, so that a stop loses nothing but the last."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import pandas as pd

from clearfold.errors import ClearfoldError, ImageError
from clearfold.features.files import Recipe, Task, stamp


class Journal:
    """Rows by task, appended to a file of JSON lines; the first line says by which recipe.

    A line that was cut off by a power failure is done again. Another recipe, or another version of clearfold, begins
    anew; so does an image that was changed since, or whose outlines were.
    """

    def __init__(self, path: Path, recipe: Recipe) -> None:
        self.path, self.recipe = path, recipe
        made_by = {"clearfold": version("clearfold"), "recipe": asdict(recipe)}
        self._head = json.dumps(made_by, default=str, sort_keys=True)
        self._known = self._read()
        self._file: IO[str] | None = None

    def __enter__(self) -> Journal:
        try:
            fresh = not self._known
            self._file = self.path.open("w" if fresh else "a", encoding="utf-8")
            if fresh:
                self._write(self._head)
            elif not self._ends_whole():
                self._file.write("\n")
        except OSError as error:
            raise ImageError(f"{self.path} could not be written: {error.strerror or error}.") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            with suppress(OSError):  # what is not on the disk yet was told by `add`, in words that say what to do
                self._file.close()

    def rows(self, task: Task) -> pd.DataFrame | None:
        """The rows of a task that was done before; None where it is to be done."""
        entry = self._known.get(task.name)
        if entry is None or entry["stamp"] != self._stamp(task):
            return None
        return _as_floats(pd.DataFrame(entry["rows"], columns=entry["columns"]))

    def add(self, task: Task, rows: pd.DataFrame) -> None:
        """Remember the rows of a task, on disk when this returns."""
        values = rows.astype(object).where(rows.notna(), None).to_numpy().tolist()
        entry = {"task": task.name, "stamp": self._stamp(task), "columns": list(rows.columns), "rows": values}
        try:
            self._write(json.dumps(entry))
        except OSError as error:
            raise ClearfoldError(
                f"{self.path} could not be written: {error.strerror or error}. What is done stays there; make room and "
                "run the same command again."
            ) from error

    def remove(self) -> None:
        """Forget everything: the table is written."""
        self.path.unlink(missing_ok=True)

    def _stamp(self, task: Task) -> list[list[int]] | None:
        """Of all files that the rows come from; None when one of them is gone."""
        try:
            return [list(stamp(path)) for path in task.sources(self.recipe)]
        except (ClearfoldError, OSError):
            return None

    def _write(self, line: str) -> None:
        assert self._file is not None
        self._file.write(line + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _ends_whole(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def _read(self) -> dict[str, Any]:
        if not self.path.exists():
            return {}
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        if not lines or lines[0] != self._head:
            return {}
        entries = [entry for line in lines[1:] if (entry := _entry(line)) is not None]
        return {entry["task"]: entry for entry in entries}


def _entry(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    whole = isinstance(entry, dict) and {"task", "stamp", "columns", "rows"} <= set(entry)
    return entry if whole else None


def _as_floats(rows: pd.DataFrame) -> pd.DataFrame:
    """Columns of features as floats again: JSON has no NaN."""
    numbers = [name for name in rows.columns if "." in name]
    return rows.astype(dict.fromkeys(numbers, float))
