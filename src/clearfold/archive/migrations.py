"""The tables, as a history: each migration takes an archive from one format to the next, on both kinds of store.

A migration is never changed once it has been released; a new one is put at the end. Words in {braces} are the types
that the two dialects spell differently.
"""

from __future__ import annotations

APPLICATION_ID = 0x436C4664
"""Marks a SQLite file as an archive of clearfold ("ClFd")."""

SQLITE = {"number": "INTEGER", "bytes": "BLOB", "json": "TEXT", "rows": "WITHOUT ROWID"}
POSTGRES = {"number": "BIGINT", "bytes": "BYTEA", "json": "JSONB", "rows": ""}

CASES_FEATURES_VERSIONS = (
    """CREATE TABLE state (
        id {number} PRIMARY KEY CHECK (id = 1),
        changes {number} NOT NULL, removals {number} NOT NULL,
        last_case {number} NOT NULL, last_version {number} NOT NULL, n_cases {number} NOT NULL,
        active {number}, settings {json} NOT NULL)""",
    "INSERT INTO state VALUES (1, 0, 0, 0, 0, 0, NULL, '{{}}')",
    """CREATE TABLE cases (
        number {number} PRIMARY KEY, case_id TEXT NOT NULL UNIQUE, patient_id TEXT, slide_id TEXT,
        label {json} NOT NULL, about {json} NOT NULL, digest {bytes} NOT NULL)""",
    "CREATE INDEX cases_patient ON cases (patient_id)",
    """CREATE TABLE features (
        number {number} PRIMARY KEY REFERENCES cases (number) ON DELETE CASCADE, vector {bytes} NOT NULL)""",
    """CREATE TABLE thumbnails (
        number {number} PRIMARY KEY REFERENCES cases (number) ON DELETE CASCADE, jpeg {bytes} NOT NULL)""",
    """CREATE TABLE versions (
        number {number} PRIMARY KEY, name TEXT NOT NULL, embedding TEXT NOT NULL, created TEXT NOT NULL,
        dimension {number} NOT NULL, learned {number} NOT NULL, n_learned {number} NOT NULL,
        preparation {json} NOT NULL, forgotten {number} NOT NULL)""",
    # a model or an index can be larger than one cell may be, so it is cut into parts
    """CREATE TABLE parts (
        version {number} NOT NULL REFERENCES versions (number) ON DELETE CASCADE,
        kind TEXT NOT NULL, part {number} NOT NULL, data {bytes} NOT NULL, PRIMARY KEY (version, kind, part)) {rows}""",
)
COORDINATES = {
    # no reference to cases: SQLite would look through a whole version for every case that is deleted;
    # case_id stands here as well, so that an answer is read from one table
    "sqlite": """CREATE TABLE coordinates (
        version INTEGER NOT NULL REFERENCES versions (number) ON DELETE CASCADE,
        number INTEGER NOT NULL, case_id TEXT NOT NULL, point BLOB NOT NULL,
        PRIMARY KEY (version, number)) WITHOUT ROWID""",
    # `place` is what was computed; `point`, in single precision, is what is indexed
    "postgres": """CREATE TABLE coordinates (
        version BIGINT NOT NULL REFERENCES versions (number) ON DELETE CASCADE,
        number BIGINT NOT NULL REFERENCES cases (number) ON DELETE CASCADE,
        place BYTEA NOT NULL, point vector NOT NULL, PRIMARY KEY (version, number))""",
}

MIGRATIONS: dict[str, list[tuple[str, ...]]] = {
    "sqlite": [(*(text.format(**SQLITE) for text in CASES_FEATURES_VERSIONS), COORDINATES["sqlite"])],
    "postgres": [
        (
            *(text.format(**POSTGRES) for text in CASES_FEATURES_VERSIONS),
            COORDINATES["postgres"],
            "CREATE INDEX coordinates_case ON coordinates (number)",
            "CREATE INDEX cases_about ON cases USING gin (about jsonb_path_ops)",
        )
    ],
}
"""Dialect -> the statements of each migration; the number of the last one is the format of an archive."""


def newest(dialect: str) -> int:
    """The format that this release writes."""
    return len(MIGRATIONS[dialect])


def missing(dialect: str, format_number: int) -> list[str]:
    """The statements that take an archive of this format to the newest."""
    return [statement for migration in MIGRATIONS[dialect][format_number:] for statement in migration]
