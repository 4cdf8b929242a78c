"""The reference of the command line as a page: `python -m clearfold.cli.reference docs/command-line-reference.md`.

Read from the signatures of the commands, so it cannot say anything else than they do.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from typer.models import ArgumentInfo

HEAD = """# Command line reference

Every command with every option, written by `python -m clearfold.cli.reference` from the commands themselves.
[Command line](command-line.md) explains them with examples.

| everywhere | meaning |
|---|---|
| `clearfold --version` | print the version |
| `clearfold --debug COMMAND ...` | keep the traceback of an error |
| `clearfold COMMAND --help`, `-h` | what a command does, its options, and examples |
| `clearfold --install-completion`, `--show-completion` | your shell completes commands, options and their values |
"""
KINDS = {Path: "path", str: "text", int: "whole number", float: "number", bool: ""}


def reference() -> str:
    """The whole page."""
    from clearfold.cli import app

    commands = [info.callback for info in app.registered_commands if info.callback is not None]
    return "\n".join([HEAD, *(section(command) for command in commands)])


def section(command: Callable[..., Any]) -> str:
    """One command: how it is called, what it says of itself, its arguments and options."""
    name = command.__name__.replace("_", "-")
    lines = list(parameters(command))
    called = [f"clearfold {name}", *([] if all(one["argument"] for one in lines) else ["[OPTIONS]"])]
    called += [one["names"] for one in lines if one["argument"]]
    table = ["| | value | default | meaning |", "|---|---|---|---|"]
    table += [f"| {spans(one['names'])} | {one['value']} | {one['default']} | {one['help']} |" for one in lines]
    text = inspect.getdoc(command) or ""
    return "\n".join([f"## clearfold {name}\n", f"```text\n{' '.join(called)}\n```\n", f"{text}\n", *table, ""])


def parameters(command: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """Each parameter in words."""
    hints = typing.get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        kind, info = typing.get_args(hints[name])
        argument = isinstance(info, ArgumentInfo)
        plain, several = kind_of(kind)
        words = argument_name(name, info, several) if argument else option_names(name, info, plain)
        yield {
            "argument": argument,
            "names": words,
            "value": value_of(plain, info),
            "default": default_of(parameter.default),
            "help": cell(info.help or ""),
        }


def kind_of(kind: Any) -> tuple[Any, bool]:
    """The type of one value, and whether there may be several: `list[Path] | None` -> (Path, True)."""
    if isinstance(kind, types.UnionType):
        kind = next(one for one in typing.get_args(kind) if one is not type(None))
    several = typing.get_origin(kind) is list
    return (typing.get_args(kind)[0] if several else kind), several


def argument_name(name: str, info: Any, several: bool) -> str:
    """INPUTS... or QUERY."""
    return (info.metavar or name.upper()) + ("..." if several else "")


def option_names(name: str, info: Any, plain: Any) -> str:
    """--output, -o; a switch without names of its own has two, --open/--no-open."""
    given = (info.default, *(info.param_decls or ()))  # in an annotation, typer keeps the first name as the default
    names = [one for one in given if isinstance(one, str) and one.startswith("-")]
    dashed = name.replace("_", "-")
    return ", ".join(names) or (f"--{dashed}/--no-{dashed}" if plain is bool else f"--{dashed}")


def value_of(plain: Any, info: Any) -> str:
    """What follows the option: a kind of value, or one of some words; and its bounds."""
    value = ", ".join(f"`{one.value}`" for one in plain) if issubclass(plain, Enum) else KINDS[plain]
    bounds = [f"{word} {bound:g}" for word, bound in (("from", info.min), ("to", info.max)) if bound is not None]
    return " ".join([value, *bounds])


def default_of(value: Any) -> str:
    """The default as one would type it; nothing for what is required, off, or worked out by the command."""
    if value is inspect.Parameter.empty:
        return "required"
    if value is None or value is False:
        return ""
    if value is True:
        return "yes"
    return f"`{value.value if isinstance(value, Enum) else value}`"


def spans(names: str) -> str:
    """Each name as code by itself, so that a line breaks between them."""
    return ", ".join(f"`{name}`" for name in names.split(", "))


def cell(text: str) -> str:
    """Text that does not end a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
    else:
        print(reference(), end="")
