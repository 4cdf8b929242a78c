"""Drawings as files and as text; several in one figure."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clearfold.errors import InputError
from clearfold.table import PathLike, atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURES = (".png", ".svg", ".pdf")


def save(figure: Figure | Axes, path: PathLike) -> None:
    """Write a drawing (.png, .svg, .pdf); a file that was there stays as it was unless the new one is whole."""
    drawn: Any = getattr(figure, "figure", figure)
    if Path(path).suffix.lower() not in PICTURES:
        raise InputError(f"{Path(path).name} has no known suffix. Drawings are {', '.join(PICTURES)}.")
    with atomic_write(path) as temporary:
        drawn.savefig(temporary, dpi=150)


def to_svg(figure: Figure | Axes) -> str:
    """One `<svg>` element, the same text for the same drawing, with ids that do not clash inside one page."""
    import matplotlib

    drawn: Any = getattr(figure, "figure", figure)
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "clearfold"}):
        drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    prefix = "f" + hashlib.sha256(svg.encode()).hexdigest()[:8] + "-"
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    return re.sub(r'(url\(#|xlink:href="#)', rf"\1{prefix}", svg)


def grid(count: int, *, width: float = 5.2, height: float = 4.4) -> tuple[Figure, Sequence[Axes]]:
    """A figure with `count` Axes in one row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * count, height), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, count)))
