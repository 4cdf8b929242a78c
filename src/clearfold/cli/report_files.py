"""Where a report and its tables go; what could not be written at the end is said before the work begins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearfold.errors import InputError

if TYPE_CHECKING:
    from clearfold.report import Report

PAGES = (".html", ".htm")
Tables = Annotated[
    Path | None, typer.Option("--tables", help="Folder for every table of the report as CSV, JSON and Markdown.")
]
"""The option that every command with a report has."""


def check_page(output: Path | None) -> None:
    """A report is a page."""
    if output is not None and output.suffix.lower() not in PAGES:
        raise InputError(f"The report {output.name} has no known suffix. Wanted is {' or '.join(PAGES)}.")


def check_folder(tables: Path | None) -> None:
    """Tables go into a folder."""
    if tables is not None and tables.exists() and not tables.is_dir():
        raise InputError(f"--tables {tables} is a file. Give a folder to write to.")


def write_report(page: Report, output: Path | None, tables: Path | None) -> None:
    """Whichever of the page and its tables is wanted."""
    if tables is not None:
        page.write_tables(tables)
    if output is not None:
        page.write(output)
