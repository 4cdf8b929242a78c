"""From an image to what a case keeps of it: features, a small picture, and a mark of its content."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from clearfold.archive.store import Floats
from clearfold.cluster import connected, parallel, unseen
from clearfold.errors import ArchiveError, MissingExtraError
from clearfold.table.columns import listed, no_duplicates

THUMBNAIL = 256
"""Longest side of a stored picture in pixels."""
WHOLE = 64 * 2**20
"""Bytes up to which a whole file makes its mark; of a larger one, both ends and the size."""


class Readable(Protocol):
    """An image that is read when its turn comes, such as a tile of a slide."""

    @property
    def name(self) -> str:
        """Its case id."""

    @property
    def mark(self) -> bytes:
        """Another one for another content."""

    def read(self) -> Any:
        """The image."""


@dataclass(frozen=True, eq=False)
class Measured:
    """Features of an image by name, its picture, mark and scale; or the `reason` why there are none."""

    names: tuple[str, ...] = ()
    values: Floats | None = None
    thumbnail: bytes | None = None
    content: bytes = b""
    mpp: float | None = None
    reason: str = ""
    warned: tuple[Warning, ...] = ()


@dataclass(frozen=True)
class Measuring:
    """How images become features: a function, micrometres a pixel (None: as the image says) and other arguments.

    n_jobs : so many images at once; -1 for one on each core
    settled : whether images are brought to `scale` (None: pixels are compared), which the first one has fixed
    """

    extract: Callable[..., Any] | None
    mpp: float | None
    extraction: dict[str, Any]
    n_jobs: int | None = None
    settled: bool = False
    scale: float | None = None

    def measure(self, image: Any) -> pd.Series[float]:
        """Named features of one image."""
        extract = self.extract or import_module("clearfold.features").extract
        features = pd.Series(extract(image, **self.extraction))
        return features.astype(float).set_axis([str(name) for name in features.index])

    def attempt(self, source: Any) -> Measured:
        """`measure` and all else that is kept; what is wrong with one image is a reason and not the end."""
        try:
            return self._whole(source)
        except MissingExtraError:  # the same for every image
            raise
        except Exception as error:
            return Measured(reason=_missing(source) or reason_of(error))

    def _whole(self, source: Any) -> Measured:
        from clearfold.images import as_image
        from clearfold.retrieval.asking import at_scale

        image = as_image(source.read() if hasattr(source, "read") else source, mpp=self.mpp)
        if self.settled:
            image = at_scale(image, self.scale)
        features = self.measure(image)
        names, values = tuple(features.index), np.array(features, dtype=np.float64)
        no_duplicates(names, "feature")
        infinite = [name for name, value in zip(names, values, strict=True) if np.isinf(value)]
        if infinite:
            raise ArchiveError(f"infinite values in {listed(infinite, 3)}.")
        return Measured(names, values, _thumbnail(image.pixels), content_of(source), image.mpp)


def measure_all(measuring: Measuring, sources: Sequence[Any]) -> Iterator[Measured]:
    """Every image in their order, on several cores or a cluster if asked for."""
    if measuring.n_jobs in (None, 1) and not connected():
        yield from map(measuring.attempt, sources)
        return
    from joblib import delayed

    run = parallel(measuring.n_jobs, return_as="generator", pre_dispatch="2*n_jobs")
    for measured in run(delayed(_recorded)(measuring, source) for source in sources):
        for warned in measured.warned:  # what a worker says, nobody hears
            warnings.warn(warned, stacklevel=2)
        yield measured


def _recorded(measuring: Measuring, source: Any) -> Measured:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        measured = measuring.attempt(source)
    said = {str(one.message): one.message for one in caught if isinstance(one.message, Warning)}
    return replace(measured, warned=tuple(said.values()))


def _missing(source: Any) -> str:
    """On a worker of a cluster: that it does not see the file of an image, or of a tile's slide."""
    path = getattr(getattr(source, "task", None), "path", source)
    return unseen(Path(path)) if isinstance(path, str | PathLike) else ""


def reason_of(error: Exception) -> str:
    """What was wrong with an image, in words; errors that nobody foresaw keep their kind."""
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def content_of(source: Any) -> bytes:
    """A mark of an image's bytes."""
    if hasattr(source, "mark"):
        return bytes(source.mark)
    if not isinstance(source, str | PathLike):
        return blake2b(np.ascontiguousarray(getattr(source, "pixels", source)).tobytes()).digest()
    mark = blake2b()
    with Path(source).open("rb") as file:
        size = Path(source).stat().st_size
        mark.update(str(size).encode())
        mark.update(file.read(WHOLE if size <= WHOLE else WHOLE // 64))
        if size > WHOLE:
            file.seek(-WHOLE // 64, 2)
            mark.update(file.read())
    return mark.digest()


def _thumbnail(pixels: np.ndarray[Any, Any]) -> bytes:
    from PIL import Image

    picture = Image.fromarray(pixels)
    picture.thumbnail((THUMBNAIL, THUMBNAIL))
    data = io.BytesIO()
    picture.save(data, "JPEG", quality=85)
    return data.getvalue()
