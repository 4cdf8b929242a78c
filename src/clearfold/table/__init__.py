"""Feature tables: one row for each sample, some columns with a role, the remaining numbers are features.

    read_table("features.csv", label="grade", patient_id="patient")  ->  Table  ->  .X, .y, .groups

A column named exactly like a role (`case_id`, `patient_id`, `slide_id`, `label`, `time`, `event`) has that
role; the arguments give a role to other names. Columns without a use are listed in `Table.ignored`.

Formats: .csv, .tsv (also .gz) and .parquet; with the extra `clearfold[anndata]` also .h5ad, and .h5 or .hdf5
in the form of CLAM and TRIDENT (`features` [N, C], `coords` [N, 2]). In CSV

- an empty cell, NA, N/A, NaN or null is a missing value;
- case, patient and slide ids are text: 007 stays 007;
- numbers come back exactly;
- text that a spreadsheet would run as a formula (it starts with = + - @, a tab or a carriage return) is
  written with a single quote before it, which `read_table` takes away again.
"""

from clearfold.table.columns import IDS, ROLES
from clearfold.table.formats import FORMATS, PathLike, atomic_write, format_of, read_table, write_table
from clearfold.table.roles import Dropped, Table, family
from clearfold.table.separated import MISSING

__all__ = [
    "FORMATS",
    "IDS",
    "MISSING",
    "ROLES",
    "Dropped",
    "PathLike",
    "Table",
    "atomic_write",
    "family",
    "format_of",
    "read_table",
    "write_table",
]
