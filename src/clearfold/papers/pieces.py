"""Pieces of a reproduction: each is one function with settings, and one file with what it found.

A file is written whole or not at all, and carries a fingerprint of the settings and versions that made it. A file that
is damaged, or of another fingerprint, is done again; the others are not.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearfold.errors import ClearfoldWarning
from clearfold.papers.claims import Figure
from clearfold.table import atomic_write

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
PACKAGES = ("clearfold", "numpy", "scipy", "scikit-learn")
"""Their versions are part of the fingerprint: other versions, other figures."""


@dataclass(frozen=True)
class Findings:
    """What a piece found: figures by protocol and name, tables by title, and who was drawn in which round."""

    figures: dict[str, dict[str, Figure]] = field(default_factory=dict)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    splits: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Piece:
    """work(**settings) -> Findings, on one set of data; cost : seconds, roughly, so that long ones begin first."""

    name: str
    paper: str
    work: Callable[..., Findings]
    settings: Mapping[str, Any]
    data: str
    cost: float = 1.0
    optional: bool = False

    @property
    def fingerprint(self) -> str:
        """Checksum of everything that decides the result."""
        facts = {"format": FORMAT, "name": self.name, "settings": dict(self.settings), "versions": versions()}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

    def path(self, folder: Path) -> Path:
        """Where its result lies."""
        return folder / f"{self.name}.json"


@dataclass(frozen=True)
class Done:
    """The result of a piece as it lies in its file; seconds are those of one processor."""

    name: str
    paper: str
    data: str
    settings: dict[str, Any]
    findings: Findings
    seconds: float
    warnings: dict[str, int]


def versions() -> dict[str, str]:
    """Python and the packages that computed this."""
    return {name: metadata.version(name) for name in PACKAGES} | {"Python": platform.python_version()}


def carry_out(piece: Piece, folder: Path) -> Done:
    """Do a piece and write its file; what the work warned of is counted, not shown."""
    begin = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        findings = piece.work(**piece.settings)
    counts: dict[str, int] = {}
    for warning in caught:
        if issubclass(warning.category, ClearfoldWarning):
            counts[warning.category.__name__] = counts.get(warning.category.__name__, 0) + 1
    seconds = round(time.process_time() - begin, 2)
    done = Done(piece.name, piece.paper, piece.data, dict(piece.settings), findings, seconds, counts)
    with atomic_write(piece.path(folder)) as temporary:
        content = {"fingerprint": piece.fingerprint, "versions": versions(), **to_json(done)}
        body = json.dumps(content, allow_nan=False)
        temporary.write_text(json.dumps({"sha256": _checksum(body)})[:-1] + ', "content": ' + body + "}")
    return done


def read_done(piece: Piece, folder: Path) -> Done | None:
    """The result of a piece, None if it was not done, with other settings or versions, or its file is damaged."""
    try:
        text = piece.path(folder).read_text(encoding="utf-8")
        whole = json.loads(text)
        body = text[text.index('"content": ') + len('"content": ') : -1]
        if whole["sha256"] != _checksum(body) or whole["content"]["fingerprint"] != piece.fingerprint:
            return None
        return from_json(whole["content"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# JSON -------------------------------------------------------------------------------------------------------


def to_json(done: Done) -> dict[str, Any]:
    """Plain lists, texts and numbers; NaN is null."""
    found = done.findings
    return {
        "piece": done.name,
        "paper": done.paper,
        "data": done.data,
        "settings": done.settings,
        "seconds": done.seconds,
        "warnings": done.warnings,
        "notes": list(found.notes),
        "figures": {p: {name: plain(asdict(f)) for name, f in own.items()} for p, own in found.figures.items()},
        "tables": {
            title: {"columns": [str(c) for c in t.columns], "rows": plain(t.to_numpy().tolist())}
            for title, t in found.tables.items()
        },
        "splits": plain(found.splits),
    }


def from_json(content: Mapping[str, Any]) -> Done:
    """The result that `to_json` wrote."""
    import pandas as pd

    figures = {protocol: {name: _figure(f) for name, f in own.items()} for protocol, own in content["figures"].items()}
    tables = {
        title: pd.DataFrame(table["rows"], columns=table["columns"]) for title, table in content["tables"].items()
    }
    findings = Findings(figures, tables, content.get("splits", {}), tuple(content.get("notes", ())))
    return Done(
        content["piece"], content["paper"], content["data"], content["settings"], findings, content["seconds"],
        content["warnings"],
    )  # fmt: skip


def _figure(held: Mapping[str, Any]) -> Figure:
    value, low, high = (math.nan if held[name] is None else float(held[name]) for name in ("value", "low", "high"))
    return Figure(value, low, high, int(held["n"]))


def plain(value: Any) -> Any:
    """numpy to Python, NaN and infinity to None, ten digits."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.10g}") if math.isfinite(value) else None
    return value
