"""The archive: cases go in, an embedding is fitted to them, queries come out."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from clearfold.archive.contents import Contents
from clearfold.archive.store import Added, Floats, Near, Numbers, Scalar, Store
from clearfold.errors import ArchiveError, ClearfoldError, InputError

if TYPE_CHECKING:
    import pandas as pd

    from clearfold.archive.fitted import Fitted


NOBODY: Numbers = np.empty(0, dtype=np.int64)
MEANT_AS_SERVER = re.compile(r"^\s*postgres(ql)?:|\bpassword\s*=", re.IGNORECASE)


class Archive(Contents):
    """Cases with their features, coordinates and fitted embeddings, in one file or on a PostgreSQL server.

    Made by `Archive.open`. Several processes may read while one writes. Each change is one transaction.

    >>> import pandas as pd, tempfile
    >>> from clearfold.embedding import PCA
    >>> cells = {"case_id": ["a", "b", "c"], "label": ["x", "x", "y"], "area": [1.0, 2.0, 5.0], "edges": [3.0, 1.0, 2]}
    >>> with tempfile.TemporaryDirectory() as folder, Archive.open(f"{folder}/cases.clearfold") as archive:
    ...     print(archive.add(pd.DataFrame(cells)), archive.fit(PCA(n_components=1)), len(archive))
    3 added, 0 already there 1 3
    """

    def __init__(self, store: Store, *, exact: bool = False) -> None:
        super().__init__(store)
        self.exact = exact
        self._fitted: dict[int, Fitted] = {}
        self._extract: Callable[..., Any] | None = None

    @classmethod
    def open(
        cls, where: str | os.PathLike[str], *, create: bool = True, read_only: bool = False, exact: bool = False
    ) -> Self:
        """Open `cases.clearfold` or `postgresql://...`; a new archive is made unless create=False or read_only.

        exact : compare a query with every case, however many there are; else an index answers in large archives, which
            finds more than 99 % of the nearest
        """
        text = os.fspath(where)
        if text.startswith(("postgresql://", "postgres://")):
            from clearfold.archive.postgres import PostgresStore

            return cls(PostgresStore(text, create=create, read_only=read_only), exact=exact)
        if "://" in text or MEANT_AS_SERVER.search(text):  # as a file's name it would be printed, with its password
            raise ArchiveError("this address is not known. Archives are files, or servers at postgresql://...")
        from clearfold.archive.sqlite import SqliteStore

        return cls(SqliteStore(Path(text), create=create, read_only=read_only), exact=exact)

    def close(self) -> None:
        """Give up the file or the server."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            with self.snapshot():
                count, active = self._store.state().count, self.active
        except ClearfoldError:
            return f"Archive {self._store.name}: closed or out of reach"
        place = f"version {active.number} ({active.name})" if active else "no embedding yet"
        return f"Archive {self._store.name}: {count} {'case' if count == 1 else 'cases'}, {place}"

    # cases in and out

    def add(
        self,
        what: Any,
        *,
        labels: Any = None,
        metadata: Iterable[str] = (),
        extract: Callable[..., Any] | None = None,
        mpp: float | None = None,
        extraction: Mapping[str, Any] | None = None,
        progress: Callable[[int, int, str], None] | None = None,
        n_jobs: int | None = None,
        **roles: str | None,
    ) -> Added:
        """Add a table (one transaction) or images (one each); cases that are there already are skipped.

        Parameters
        ----------
        what : DataFrame, Table or its path, with case_id, patient_id, slide_id, label, time, event; other numbers are
            features, other text is metadata. Or a folder, a list or a dict (case_id -> image) of images
        labels : for images, a table with case_id (the image's name), label, patient_id and any metadata
        metadata : columns of numbers that are no features
        extract : for images, image -> Series of named features; `clearfold.features.extract` if None
        mpp, extraction : for images, micrometres a pixel (as each image says if None) and further arguments of
            `extract`; both are kept with the archive and hold for all its images
        progress : for images, called with (done, total, name) after each
        n_jobs : images to measure at once; -1 for one on each core
        roles : column names, as in `read_table`
        """
        from clearfold.archive.measuring import Measuring
        from clearfold.archive.pictures import add_pictures, are_pictures

        if are_pictures(what):
            self._extract = extract or self._extract
            measuring = Measuring(self._extract, mpp, dict(extraction or {}), n_jobs)
            return add_pictures(self._store, what, labels, measuring, progress, roles, self.fitted)
        from clearfold.archive.adding import insert_cases
        from clearfold.archive.cases import as_table, cases_of

        table = as_table(what, metadata, **roles)
        settings = {"mpp": mpp, "extraction": dict(extraction or {})}
        return insert_cases(self._store, cases_of(table), table.features, settings, self.fitted)

    def remove(self, *, case_id: str | None = None, patient_id: str | None = None, refit: bool = True) -> int:
        """Delete a case, or all cases of a patient, with every trace; gives how many cases were deleted.

        A model that learned from them is erased, because it may hold their features; with `refit` the same embedding
        is fitted to the remaining cases as a new version. Where that is not possible, the version waits to be fitted.
        """
        if (case_id is None) == (patient_id is None):
            raise ArchiveError("give either case_id or patient_id.")
        with self._store.writing():
            numbers = (
                self._numbers([case_id]) if case_id is not None else self._store.of_patient(str(patient_id)).tolist()
            )
            if not numbers:
                raise ArchiveError(f"There is no patient {patient_id!r} in {self._store.name}.")
            active = self.active
            learned = active is not None and not active.forgotten and active.learned >= min(numbers)
            again = None
            if refit and learned:
                with suppress(ClearfoldError):  # a model that cannot be read keeps nobody in the archive
                    again = self.fitted().estimator
            self._store.remove(numbers)
        self._fitted = {}
        self._store.purge()
        if again is not None and active is not None:
            with suppress(InputError):  # too few may be left: then the version says that it has to be fitted again
                self.fit(again, name=active.name, scale=False)
        return len(numbers)

    # embeddings

    def fit(self, embedding: Any, *, name: str | None = None, activate: bool = True, scale: bool | None = None) -> int:
        """Fit an embedding to all cases (y the label, groups the patient); gives the number of the new version.

        Features that are always missing or never vary are left out, other missing values become the median; both are
        kept with the model. Embeddings that do not standardise features by themselves are put behind a StandardScaler
        unless `scale` is False. Older versions stay; the switch to the new one is atomic.
        """
        from clearfold.archive.fitted import fit_version

        fitted = fit_version(self._store, embedding, name, activate, scale)
        self._fitted = {**self._fitted, fitted.version: fitted}
        return fitted.version

    def activate(self, version: int) -> None:
        """Let another version answer."""
        with self._store.writing():
            self._store.activate(self._version(version).number)

    def drop(self, version: int) -> None:
        """Delete a version that does not answer."""
        with self._store.writing():
            if self._version(version).active:
                raise ArchiveError(f"version {version} is the one that answers. Activate another one first.")
            self._store.drop(version)
        self._fitted = {number: fitted for number, fitted in self._fitted.items() if number != version}
        self._store.purge()

    def fitted(self, version: int | None = None) -> Fitted:
        """The fitted embedding of a version (the active one if None)."""
        from clearfold.archive.fitted import load_version

        with self.snapshot():
            known = self._version(version)
            if known.forgotten or known.number not in self._fitted:
                self._fitted = {**self._fitted, known.number: load_version(self._store, known)}
            return self._fitted[known.number]

    # queries

    def rows_of(self, rows: Any) -> pd.DataFrame:
        """Rows as a frame with the archive's features, from a frame, a Series, a mapping or an array in their order."""
        from clearfold.archive.cases import rows_like

        return rows_like(rows, self.feature_names)

    def extract(self, image: Any) -> pd.Series[float]:
        """Features of an image, measured as the archive's images were."""
        from clearfold.archive.measuring import Measuring

        return Measuring(self._extract, None, self.settings.get("extraction") or {}).measure(image)

    def place(self, rows: Any, version: int | None = None) -> Floats:
        """Coordinates (n, h) of new rows under a version (the active one if None)."""
        with self.snapshot():
            return self.fitted(version).place(self.rows_of(rows))

    def nearest(
        self,
        point: Any,
        k: int = 10,
        where: Mapping[str, Any] | None = None,
        *,
        without_patient: str | None = None,
        without_case: str | None = None,
        version: int | None = None,
        exact: bool | None = None,
    ) -> list[Near]:
        """The k cases nearest to a point (h coordinates), by distance and then by case_id.

        where : column -> value, or list of values of which one must be met
        exact : never by an index; as the archive was opened if None
        """
        point = np.ascontiguousarray(point, dtype=np.float64).ravel()
        with self.snapshot():
            known = self._version(version)
            _check_question(point[None], k, known.dimension)
            leave = self._left_out(without_patient, without_case)
            exact = self.exact if exact is None else exact
            return self._store.nearest(known, point, int(k), self._filter(where), leave, exact)

    def nearest_each(
        self,
        points: Any,
        k: int = 10,
        where: Mapping[str, Any] | None = None,
        *,
        version: int | None = None,
        exact: bool | None = None,
    ) -> list[list[Near]]:
        """`nearest` of each of several points (q, h): the same answers, exact ones in less time."""
        points = np.ascontiguousarray(points, dtype=np.float64)
        with self.snapshot():
            known = self._version(version)
            _check_question(np.atleast_2d(points), k, known.dimension)
            exact = self.exact if exact is None else exact
            return self._store.nearest_each(known, np.atleast_2d(points), int(k), self._filter(where), NOBODY, exact)

    def label_counts(
        self,
        where: Mapping[str, Any] | None = None,
        *,
        without_patient: str | None = None,
        without_case: str | None = None,
    ) -> dict[Scalar, int]:
        """How many cases have each label (None: no label), among those that could answer a query."""
        with self.snapshot():
            leave = self._left_out(without_patient, without_case)
            return self._store.label_counts(self._filter(where), leave)

    def _filter(self, where: Mapping[str, Any] | None) -> dict[str, list[Scalar]]:
        if where is None:
            return {}
        from clearfold.archive.filters import stored_filter

        return stored_filter(self._store, where)

    def _left_out(self, patient_id: str | None, case_id: str | None) -> Numbers:
        if patient_id is None and case_id is None:
            return NOBODY
        numbers = set() if patient_id is None else set(self._store.of_patient(patient_id).tolist())
        numbers |= set() if case_id is None else set(self._store.find([case_id]).values())
        return np.array(sorted(numbers), dtype=np.int64)

    def query(self, query: Any, k: int = 10, where: Mapping[str, Any] | None = None, own_patient: bool = False) -> Any:
        """The k cases most like an image, a feature row or a stored case (its id), with reasons (`retrieval.Answer`).

        where : column -> value, or list of values; own_patient : let cases of the query's own patient answer as well
        """
        from clearfold.retrieval import answer

        return answer(self, query, k, where, own_patient)


def _check_question(points: Floats, k: Any, dimension: int) -> None:
    if points.ndim != 2 or points.shape[1] != dimension or not np.isfinite(points).all():
        raise ArchiveError(f"{points.shape[-1]} coordinates came; wanted are {dimension} finite numbers.")
    if not isinstance(k, int | np.integer) or k < 1:
        raise ArchiveError(f"k={k!r} came; wanted is a whole number of at least 1.")
