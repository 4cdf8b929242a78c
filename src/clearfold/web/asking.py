"""Queries that came from outside: an upload or a box on a slide, measured in a child process and kept for a while."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearfold.web.answers import Refused
from clearfold.web.work import Job

if TYPE_CHECKING:
    from clearfold.web.library import Library

KEPT = 100
"""Queries that are remembered; the oldest go first, and their files with them."""
FACTS = ("mpp", "width", "height", "large", "nuclei", "warnings")
BOX = ("x", "y", "width", "height")
FAR = 1e9
"""Pixels from the corner of an image, beyond which nothing lies."""


@dataclass(frozen=True, eq=False)
class Query:
    """One image: its features (None where it is so large that a box has to be drawn), a picture, and its file."""

    id: str
    name: str
    features: dict[str, float | None] | None
    picture: bytes
    facts: dict[str, Any]
    source: dict[str, Any]
    label: str | None = None
    patient_id: str | None = None

    @property
    def shown(self) -> dict[str, Any]:
        """As the API says it."""
        address = f"/api/v1/query/image?id={self.id}"
        return {"query": self.id, "name": self.name, "label": self.label, "image": address, **self.facts}


class Queries:
    """The latest queries."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._known: OrderedDict[str, Query] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, query_id: str) -> Query:
        """A query by its id."""
        with self._lock:
            query = self._known.get(query_id)
            if query is None:
                raise Refused(
                    404, f"There is no query {query_id[:40]!r}: uploads are forgotten after a while. Send it again."
                )
            self._known.move_to_end(query_id)
        return query

    def upload(self, path: Path, name: str, mpp: float | None, label: str | None) -> Job:
        """Measure a file that came."""
        source = self.source(path, name, mpp, None)
        return self._submit(f"q-{secrets.token_hex(8)}", source, {"label": label}, region=None)

    def source(self, path: Path, name: str, mpp: float | None, box: dict[str, float] | None) -> dict[str, Any]:
        """What the child process is told of a file."""
        limits = {"pixels": self._library.settings.pixels, "measured": self._library.settings.measured}
        return {"path": str(path), "name": name, "mpp": mpp, "box": box, **limits}

    def box_of_query(self, query_id: str, box: dict[str, float]) -> Job:
        """Measure a box of an uploaded image."""
        parent = self.find(query_id)
        if parent.source["box"] is not None:
            raise Refused(422, "This query is a box already. Draw on the whole image.")
        source = parent.source | {"box": _within(box, parent.facts["width"], parent.facts["height"])}
        about = {"label": parent.label, "patient_id": parent.patient_id}
        return self._submit(_mark(query_id, source["box"]), source, about, region={"of": query_id, **source["box"]})

    def box_of_slide(self, slide_id: str, box: dict[str, float], mpp: float | None, label: str | None) -> Job:
        """Measure a box of a slide; a case's own patient stays out of the answer."""
        slides = self._library.slides
        facts, path = slides.facts(slide_id), slides.path(slide_id)
        inside = _within(box, facts["width"], facts["height"])
        mpp = mpp or slides.mpp(slide_id)
        source = self.source(path, facts["name"], mpp, inside)
        about = {"label": label, "patient_id": facts["patient_id"]}
        return self._submit(_mark(slide_id, inside, mpp, label), source, about, region={"of": slide_id, **inside})

    def _submit(self, query_id: str, source: dict[str, Any], about: dict[str, Any], region: Any) -> Job:
        settings = self._library.archive.settings
        asked = {"mpp": settings.get("mpp"), "extraction": settings.get("extraction") or {}}

        def finish(found: dict[str, Any]) -> dict[str, Any]:
            facts = {name: found[name] for name in FACTS} | {"region": region}
            picture = base64.b64decode(found["picture"])
            query = Query(query_id, source["name"], found["features"], picture, facts, source, **about)
            return self._keep(query)

        arguments = {"source": source, "settings": asked}
        job = Job("query", "measure", arguments, self._library.settings.seconds, finish)
        job.over.add_done_callback(lambda _: self._tidy(source))
        return self._library.jobs.submit("quick", job)

    def _keep(self, query: Query) -> dict[str, Any]:
        names = self._library.archive.feature_names
        missing = [] if query.features is None else [name for name in names if name not in query.features]
        if missing:
            raise Refused(
                422,
                f"The archive has features that are not measured from images here, first {missing[0]!r}: it was made "
                "from a table or in another way. Ask with one of its cases instead.",
            )
        with self._lock:
            self._known[query.id] = query
            over = len(self._known) - KEPT
            gone = [self._known.popitem(last=False)[1] for _ in range(over)]
        for old in gone:
            self._tidy(old.source)
        return {"query": query.shown}

    def _tidy(self, source: dict[str, Any]) -> None:
        """Delete an upload that no query needs: it was refused, or is forgotten."""
        with self._lock:
            used = any(query.source["path"] == source["path"] for query in self._known.values())
        path = Path(source["path"])
        if path.parent == self._library.folder and not used:
            path.unlink(missing_ok=True)


def read_box(given: dict[str, Any]) -> dict[str, float]:
    """x, y, width and height as numbers."""
    box = {name: given.get(name) for name in BOX}
    if not all(_is_length(value) for value in box.values()):
        raise Refused(422, f"{json.dumps(box)[:200]} came; wanted are x, y, width and height in pixels.")
    return {name: float(value) for name, value in box.items()}  # type: ignore[arg-type]


def _is_length(value: Any) -> bool:
    """A number, and not so large that nothing can be computed with it; NaN is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -FAR <= value <= FAR


def _within(box: dict[str, float], width: float, height: float) -> dict[str, float]:
    left, top = max(0.0, box["x"]), max(0.0, box["y"])
    right, bottom = min(width, box["x"] + box["width"]), min(height, box["y"] + box["height"])
    if right - left < 16 or bottom - top < 16:
        raise Refused(422, "The box has fewer than 16 pixels inside the image. Draw a larger one.")
    return {"x": left, "y": top, "width": right - left, "height": bottom - top}


def _mark(*parts: Any) -> str:
    """The same box has the same id, so that its address can be shared."""
    text = json.dumps(parts, sort_keys=True).encode()
    return f"q-{hashlib.blake2b(text, digest_size=8).hexdigest()}"


def shown_name(name: str | None) -> str:
    """The name of an uploaded file, for people only: without folders and without anything that cannot be read."""
    last = (name or "").replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(c for c in last if c.isprintable())[:100] or "image"
