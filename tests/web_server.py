"""A real server in a thread, and small archives for it: one of drawn tissue, one of a table with strange names."""

import contextlib
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import uvicorn

from clearfold.archive import Archive
from clearfold.cli.serve import listening
from clearfold.datasets import synthetic_cohort
from clearfold.embedding import PCA
from clearfold.errors import ClearfoldWarning
from clearfold.web import Settings, create_app

HTML = "<script>alert(1)</script>"
STRANGE = f"a/b c&d?{HTML}"


@dataclass(frozen=True)
class Served:
    """Where a server answers, a client for it, and what is inside."""

    url: str
    client: httpx.Client
    library: Any

    def get(self, path: str, **asked: Any) -> httpx.Response:
        return self.client.get(path, params=asked or None)

    def json(self, path: str, **asked: Any) -> Any:
        answer = self.get(f"/api/v1{path}", **asked)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def error(self, path: str, status: int, **asked: Any) -> str:
        """The message of a refusal, which has to have this status."""
        answer = self.get(f"/api/v1{path}", **asked)
        assert answer.status_code == status, answer.text
        assert answer.json()["error"]["status"] == status
        return str(answer.json()["error"]["message"])

    def upload(self, data: bytes, name: str = "tile.png", wait: int = 60, **fields: str) -> httpx.Response:
        return self.client.post(f"/api/v1/queries?wait={wait}", files={"file": (name, data)}, data=fields)


@contextlib.contextmanager
def serving(archive: Path, settings: Settings | None = None) -> Iterator[Served]:
    """`clearfold serve`, without the command line."""
    settings = settings or Settings()
    door = listening("127.0.0.1", 0)
    port = door.getsockname()[1]
    app = create_app(archive, replace(settings, port=port))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
    thread.start()
    try:
        until = time.monotonic() + 30
        while not server.started and time.monotonic() < until:
            time.sleep(0.01)
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
            yield Served(url, client, app.app.state.library)
    finally:
        server.should_exit = True
        thread.join()
        door.close()


def tissue_archive(folder: Path, n_patients: int = 6, images_per_patient: int = 2, size: int = 128) -> Path:
    """An archive of drawn tissue with its images beside it, in folder/cohort/images."""
    cohort = synthetic_cohort(
        folder / "cohort", n_patients=n_patients, images_per_patient=images_per_patient, size=size
    )
    with warnings.catch_warnings(), Archive.open(folder / "tissue.clearfold") as archive:
        warnings.simplefilter("ignore", ClearfoldWarning)
        labels = cohort.table[["case_id", "patient_id", "label"]]
        done = archive.add(folder / "cohort" / "images", labels=labels, mpp=0.5)
        assert not done.failed
        archive.fit(PCA(n_components=3))
    return folder / "tissue.clearfold"


def table_archive(folder: Path, n: int = 60) -> Path:
    """An archive of a table: two classes that differ in shape, times, missing values, and one strange name."""
    random = np.random.default_rng(7)
    high = np.arange(n) % 2 == 1
    X = random.normal(size=(n, 6))
    X[:, :2] += np.outer(high, [4, 2])
    X[::10, 3] = np.nan
    names = ["shape.area", "shape.length", "graph.edges", "graph.nodes", "texture.contrast", f"texture.{HTML}"]
    frame = pd.DataFrame(X, columns=names)
    risk = np.exp(1.5 * high)
    about = {
        "case_id": [f"case{i:03d}" for i in range(n - 1)] + [STRANGE],
        "patient_id": [f"p{i // 2:02d}{'b' if i % 2 else 'a'}" for i in range(n)],
        "label": [*np.where(high, "high", "low")[:-1], HTML],
        "time": np.round(random.exponential(10 / risk) + 0.1, 3),
        "event": (random.random(n) < 0.8).astype(int),
        "organ": np.where(np.arange(n) % 3 == 0, "breast", "prostate"),
    }
    with Archive.open(folder / "table.clearfold") as archive:
        archive.add(pd.concat([pd.DataFrame(about), frame], axis=1))
        archive.fit(PCA(n_components=2))
    return folder / "table.clearfold"
