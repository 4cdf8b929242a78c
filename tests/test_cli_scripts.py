"""What a script may rely on: JSON from every command, exit codes, completion."""

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clearfold.cli import app
from clearfold.cli.reference import parameters

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {info.callback.__name__: info.callback for info in app.registered_commands if info.callback}
MAIN = [sys.executable, "-c", "from clearfold.cli import main; main()"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_gives_json(command: str) -> None:
    assert "--json" in [one["names"] for one in parameters(COMMANDS[command])]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches_by_example(command: str) -> None:
    text = inspect.getdoc(COMMANDS[command]) or ""
    assert re.search(r"`(\w+=\S+ )?clearfold " + command, text), "its help has no example"
    assert all(one["help"].endswith((".", "...")) for one in parameters(COMMANDS[command]))


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_in_help_use_options_that_exist(command: str) -> None:
    known = {name for one in parameters(COMMANDS[command]) for name in re.split(r", |/", one["names"])}
    for example in re.findall(rf"`[^`]*clearfold {command} ([^`]*)`", inspect.getdoc(COMMANDS[command]) or ""):
        used = {word for word in example.split() if re.match(r"--?[a-z]", word)}
        assert used <= known, example


def completed(words: str, count: int) -> list[str]:
    asked = {"_CLEARFOLD_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    # The shell sets the name of the program; here the variable is named after it by `prog_name`.
    done = subprocess.run(MAIN, capture_output=True, text=True, env=os.environ | asked)
    return done.stdout.split()


def test_a_shell_completes_commands_options_and_values() -> None:
    assert completed("clearfold sal", 1) == ["saliency"]
    assert completed("clearfold embed --land", 2) == ["--landmarks"]
    assert completed("clearfold embed --method ker", 3) == ["kernel-pca"]


def test_completion_loads_nothing_heavy() -> None:
    code = (
        "import sys; from clearfold.cli import app; print({'numpy', 'pandas', 'sklearn', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_exit_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 done, 2 cannot be used, 130 stopped; 1 is tested with the commands that do things in part."""
    runner = CliRunner()
    assert runner.invoke(app, ["--version"]).exit_code == 0
    assert runner.invoke(app, ["embed", "--nonsense"]).exit_code == 2
    assert runner.invoke(app, ["embed", str(tmp_path / "missing.csv")]).exit_code == 2

    def stopped() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.import_module("clearfold.cli.doctor"), "examined", stopped)
    assert runner.invoke(app, ["doctor"]).exit_code == 130


def test_exit_codes_are_documented() -> None:
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\d+) \|", text, re.MULTILINE) == ["0", "1", "2", "130"]


def test_serve_says_where_it_is_in_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    from clearfold.archive import Archive

    with Archive.open(tmp_path / "cases.clearfold"):
        pass
    monkeypatch.setattr(importlib.import_module("clearfold.cli.serve"), "_run", lambda *_: None)
    result = CliRunner().invoke(app, ["serve", str(tmp_path / "cases.clearfold"), "--port", "0", "--json"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", facts["address"])
