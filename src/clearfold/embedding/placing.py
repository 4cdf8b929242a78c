"""Millions of rows: fit on landmarks, place the table span by span, never more of it in memory than a few spans."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clearfold.cluster import parallel, unseen, width
from clearfold.embedding.landmarks import LandmarkEmbedding
from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError
from clearfold.table import atomic_write
from clearfold.table.stream import Span, Stream

if TYPE_CHECKING:
    import pandas as pd

SAMPLE = 10
"""Landmarks are chosen among so many times as many rows, drawn from the whole table."""
Progress = Callable[[str, int, int], None]
"""Called with what is done, how many spans are, and how many there will be."""


@dataclass(frozen=True)
class Placing:
    """How a table larger than memory is embedded.

    embedding : fitted on the landmarks; Isomap() if None
    n_landmarks : so many rows, spread over a sample of ten times as many (all rows, if there are not more)
    chunk_rows : rows in memory at once, in each process; it has no part in the result
    standardize : bring each feature to mean 0 and standard deviation 1 over all rows
    """

    embedding: Any = None
    n_landmarks: int = 2000
    chunk_rows: int = 50_000
    standardize: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Placed:
    """What was done: the fitted `LandmarkEmbedding`, the sample it was fitted to, and what it took.

    sample : the columns with a role of the rows of `fitted.embedding_`
    spans, reused : parts of the table, and how many of them an earlier run had done
    peak_mb : most memory that this process, and any that placed rows, has had (NaN where the system does not say)
    """

    fitted: LandmarkEmbedding
    sample: pd.DataFrame
    n_rows: int
    constant: int
    spans: int
    reused: int
    peak_mb: float


def place_table(
    stream: Stream, output: Path, placing: Placing, *, n_jobs: int | None = None, progress: Progress | None = None
) -> Placed:
    """Coordinates of every row of a Parquet table, in its order, into another one: roles, then coordinate_1, ...

    One pass for means, deviations and the sample, another for the coordinates: spans of rows, in other processes if
    asked for (n_jobs, or `clearfold.cluster.on_cluster`), which read them themselves. Each span lies on disk when it is
    done. Called again after an interruption, spans that are there are not placed again. The output is there whole, or
    not at all.
    """
    _check(placing, output)
    spans = stream.spans(placing.chunk_rows)
    scaler, sample, about = _surveyed(stream, spans, placing, progress)
    X = scaler.transform(sample) if placing.standardize else sample
    model = LandmarkEmbedding(
        embedding=placing.embedding, n_landmarks=placing.n_landmarks, random_state=placing.seed
    ).fit(X)
    part = _Part(stream, model, scaler if placing.standardize else None)
    with _Parts(output, _fingerprint(stream, placing)) as parts, atomic_write(output) as temporary:
        left = [number for number in range(len(spans)) if not parts.path(number).exists()]
        peak = _peak_mb()
        for count, (number, table, most) in enumerate(_placed(part, spans, left, n_jobs), start=1):
            parts.write(number, table)
            peak = max(peak, most)
            _tell(progress, "placing", len(spans) - len(left) + count, len(spans))
        parts.join(len(spans), temporary)
    constant = int((scaler.var_ == 0).sum())
    return Placed(model, about, stream.n_rows, constant, len(spans), len(spans) - len(left), max(peak, _peak_mb()))


def _check(placing: Placing, output: Path) -> None:
    if output.suffix.lower() != ".parquet":
        raise InputError(f"{output.name} came; coordinates of a table that is read by parts are .parquet.")
    for name, value, least in (("n_landmarks", placing.n_landmarks, 2), ("chunk_rows", placing.chunk_rows, 1)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"{name}={value!r} came; a whole number of at least {least} is wanted.")


def _tell(progress: Progress | None, what: str, count: int, total: int) -> None:
    if progress is not None:
        progress(what, count, total)


# First pass ------------------------------------------------------------------------------------------------


def _surveyed(
    stream: Stream, spans: list[Span], placing: Placing, progress: Progress | None
) -> tuple[Any, Matrix, pd.DataFrame]:
    """Means and deviations of all rows, and a sample in the order of the table: features and columns with a role."""
    import pyarrow as pa
    from sklearn.preprocessing import StandardScaler

    size = min(stream.n_rows, SAMPLE * placing.n_landmarks)
    drawn = np.sort(np.random.default_rng(placing.seed).choice(stream.n_rows, size, replace=False))
    scaler, features, roles = StandardScaler(), [], []
    for number, span in enumerate(spans):
        X, about = stream.read(span)
        stream.check(X, span)
        scaler.partial_fit(X)
        low, high = np.searchsorted(drawn, [span.first, span.first + len(X)])
        rows = drawn[low:high] - span.first
        features.append(X[rows])
        roles.append(about.take(pa.array(rows)))
        _tell(progress, "reading", number + 1, len(spans))
    return scaler, np.concatenate(features), pa.concat_tables(roles).to_pandas(ignore_metadata=True)


# Second pass -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """Everything that places a span, in whatever process."""

    stream: Stream
    model: LandmarkEmbedding
    scaler: Any

    def __call__(self, number: int, span: Span) -> tuple[int, Any, float]:
        """Number of the span, its table, and the most memory that this process has had."""
        import pyarrow as pa

        if reason := unseen(self.stream.path):
            raise InputError(reason[0].upper() + reason[1:])
        X, table = self.stream.read(span)
        places = self.model.transform(X if self.scaler is None else self.scaler.transform(X))
        if "case_id" not in self.stream.roles:
            names = [str(row) for row in range(span.first, span.first + len(X))]
            table = (
                table.add_column(0, "case_id", pa.array(names)) if table.num_columns else pa.table({"case_id": names})
            )
        for column in range(places.shape[1]):
            table = table.append_column(f"coordinate_{column + 1}", pa.array(places[:, column]))
        return number, _as_bytes(table.replace_schema_metadata(None)), _peak_mb()


def _placed(part: _Part, spans: list[Span], left: list[int], n_jobs: int | None) -> Iterator[Any]:
    """Spans as they are done. So many at a time that results which wait to be written cannot pile up."""
    from joblib import delayed

    some = max(64, 8 * width(n_jobs))
    for begin in range(0, len(left), some):
        work = (delayed(part)(number, spans[number]) for number in left[begin : begin + some])
        yield from parallel(n_jobs, return_as="generator_unordered", batch_size=1)(work)


def _as_bytes(table: Any) -> bytes:
    """The rows alone: a slice that is pickled would bring along what it was cut from."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


class _Parts:
    """Spans that are done, as files in a folder beside the output; of another making, they are removed."""

    def __init__(self, output: Path, fingerprint: str) -> None:
        self.folder, self.mark = output.with_name(f".{output.name}.parts"), fingerprint

    def __enter__(self) -> _Parts:
        made_by = self.folder / "made_by"
        try:
            if not made_by.exists() or made_by.read_text(encoding="utf-8") != self.mark:
                shutil.rmtree(self.folder, ignore_errors=True)
                self.folder.mkdir()
                made_by.write_text(self.mark, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{self.folder} could not be written: {error.strerror or error}.") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, number: int) -> Path:
        """Where a span lies when it is done."""
        return self.folder / f"{number:07d}.parquet"

    def write(self, number: int, content: bytes) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        with atomic_write(self.path(number)) as temporary:
            pq.write_table(pa.ipc.open_stream(content).read_all(), temporary)

    def join(self, count: int, output: Path) -> None:
        """All of them in order, one in memory at a time."""
        import pyarrow.parquet as pq

        with pq.ParquetWriter(output, pq.read_schema(self.path(0))) as writer:
            for number in range(count):
                writer.write_table(pq.read_table(self.path(number), use_threads=False))


def _fingerprint(stream: Stream, placing: Placing) -> str:
    """Checksum of everything that decides the coordinates and the spans."""
    file = stream.path.stat()
    embedding = placing.embedding
    told = {} if embedding is None else {key: repr(value) for key, value in embedding.get_params().items()}
    facts = {
        "clearfold": version("clearfold"),
        "table": [str(stream.path), file.st_size, file.st_mtime_ns, stream.roles, stream.families],
        "placing": asdict(placing) | {"embedding": [type(embedding).__name__, told]},
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def _peak_mb() -> float:
    """The most memory that this process has had, in megabytes."""
    try:  # `ru_maxrss` would begin with that of the process that started this one
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024
    except (OSError, StopIteration):
        pass
    try:
        import resource
        import sys

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)
    except ImportError:
        return float("nan")
