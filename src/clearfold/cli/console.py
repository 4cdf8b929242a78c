"""What every command shares: errors and warnings in words, and facts printed as a table."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table as Grid
from rich.text import Text
from typer.core import TyperGroup

from clearfold.errors import ClearfoldError, ClearfoldWarning

if TYPE_CHECKING:
    import pandas as pd


class Commands(TyperGroup):
    """Turns an error that clearfold raises on purpose into a message and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; with --debug an error keeps its traceback."""
        try:
            return super().invoke(ctx)
        except (ClearfoldError, MemoryError) as error:
            if ctx.params.get("debug"):
                raise
            text = str(error)
            if isinstance(error, MemoryError):
                text = f"There is not enough memory ({error}). Try --landmarks 2000."
            stderr().print(Text.assemble(("error: ", "bold red"), (text, "red")), soft_wrap=True)
            raise typer.Exit(2) from error


def stderr() -> Console:
    """Where progress, warnings and errors go; results go to standard output."""
    return Console(stderr=True)


def progress_bar() -> Progress:
    """A bar for long work: what, how much of how many, since when, and for how long still."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=stderr(),
        transient=True,
    )


@contextmanager
def recorded() -> Iterator[list[str]]:
    """Collect warnings, each once, and print them at the end even when the work failed."""
    notes: list[str] = []

    def note(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = f"{category.__name__}: {message}"
        if text not in notes:
            notes.append(text)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", ClearfoldWarning)
            warnings.showwarning = note
            yield notes
    finally:
        for text in notes:
            stderr().print(Text.assemble(("warning: ", "bold yellow"), (text, "yellow")), soft_wrap=True)


def fact_table(facts: Mapping[str, Any]) -> pd.DataFrame:
    """The facts that apply, as text in two columns."""
    import pandas as pd

    shown = {name: words(value) for name, value in facts.items() if value not in (None, {}, [])}
    return pd.DataFrame({"what": list(shown), "value": list(shown.values())})


def words(value: Any) -> str:
    """A fact as a reader would say it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return words([f"{name} ({reason})" for name, reason in value.items()])
    if isinstance(value, list):
        more = f" and {len(value) - 8} more" if len(value) > 8 else ""
        return ", ".join(words(item) for item in value[:8]) + more
    return str(value)


def show(facts: Mapping[str, Any]) -> None:
    """Print the facts that apply, without the warnings, which have been printed."""
    grid = Grid(show_header=False, box=None, pad_edge=False)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for what, value in fact_table({name: value for name, value in facts.items() if name != "warnings"}).to_numpy():
        grid.add_row(Text(what), Text(value))
    Console().print(grid)
