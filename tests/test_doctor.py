"""`clearfold doctor` tells what is there, what is not and what to type, whatever is missing or broken."""

import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from clearfold.cli import health
from clearfold.cli.health import Check

doctor = importlib.import_module("clearfold.cli.doctor")  # the command has the same name as its module
ROOT = Path(__file__).resolve().parents[1]
RUN = "import sys; sys.modules.update(dict.fromkeys({hidden!r})); from clearfold.cli import main; main()"


def run(*options: str, hidden: tuple[str, ...] = (), **environment: str) -> tuple[int, str, str]:
    """Run the command in a process of its own, where the modules in `hidden` cannot be imported."""
    command = [sys.executable, "-c", RUN.format(hidden=hidden), "doctor", *options]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    return done.returncode, done.stdout, done.stderr


def states(printed: str) -> dict[str, str]:
    return {check["name"]: check["state"] for check in json.loads(printed)["checks"]}


def test_what_it_looks_for_is_what_the_project_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def names(lines: list[str]) -> set[str]:
        return {re.match(r"[\w.-]+", line)[0] for line in lines if not line.startswith("clearfold[")}  # type: ignore[index]

    assert set(health.CORE) == names(project["dependencies"])
    extras = project["optional-dependencies"]
    not_for_users = {"all", "docs", "test", "dev"}
    assert {extra: set(wanted) for extra, wanted in health.EXTRAS.items()} == {
        extra: names(lines) for extra, lines in extras.items() if extra not in not_for_users
    }


def test_here_everything_works(tmp_path: Path) -> None:
    code, printed, said = run("--json", CLEARFOLD_DATA=str(tmp_path))
    assert code == 0, said
    found = states(printed)
    assert json.loads(printed)["healthy"] is True
    assert {found[name] for name in ("numpy", "OpenSlide", "compiled kernels", "SQLite", "neighbour search")} == {
        "works"
    }
    assert "broken" not in found.values()


def test_an_extra_that_is_missing_is_named_with_its_command_and_is_no_fault() -> None:
    hidden = ("numba", "openslide", "faiss", "apsw", "psycopg", "fastapi", "lifelines", "anndata", "distributed")
    code, printed, said = run(hidden=hidden)
    assert code == 0, said
    for extra in ("images", "archive", "postgres", "web", "survival", "anndata", "cluster"):
        assert f'Do: pip install "clearfold[{extra}]"' in printed
    assert "Traceback" not in said


def test_without_the_core_it_still_speaks() -> None:
    code, printed, said = run("--json", hidden=("numpy", "scipy", "pandas", "sklearn", "matplotlib", "threadpoolctl"))
    assert code == 1
    assert "Traceback" not in said
    found = states(printed)
    assert found["numpy"] == found["pandas"] == "broken"


def test_a_library_that_cannot_be_loaded_is_broken(tmp_path: Path) -> None:
    (tmp_path / "lifelines.py").write_text("raise OSError('a shared library is gone')", encoding="utf-8")
    code, printed, _ = run("--json", PYTHONPATH=str(tmp_path))
    (broken,) = [check for check in json.loads(printed)["checks"] if check["state"] == "broken"]
    assert code == 1
    assert broken["name"] == "lifelines"
    assert "a shared library is gone" in broken["about"]
    assert broken["remedy"].startswith('pip install "clearfold[survival]"')


def test_half_of_a_library_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg_pool", None)
    found = health.library("postgres", "psycopg", "psycopg", "", "pip install it")
    assert (found.state, found.remedy) == ("broken", "pip install it")


def test_an_old_library_is_broken() -> None:
    assert health.library("core", "numpy", "numpy", "999.0", "pip install it").remedy == "pip install it --upgrade"
    assert health.library("core", "numpy", "numpy", "1.0", "pip install it").state == "works"


@pytest.mark.parametrize(("old", "new"), [("1.9", "1.10"), ("", "0.1"), ("2.0.0rc1", "2.0.1"), ("of unknown", "0.1")])
def test_versions_are_compared_as_numbers(old: str, new: str) -> None:
    assert health.numbers(old) < health.numbers(new)


def test_minimums_are_those_of_the_installed_package() -> None:
    least = health.minimums()
    assert set(health.CORE) <= set(least)
    assert all(health.numbers(version) for version in least.values())


def test_a_data_folder_says_what_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    monkeypatch.setenv("CLEARFOLD_DATA", str(tmp_path))
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "wpbc.csv").touch()
    assert "here: wpbc; not here: madelon" in doctor.data_folder()
    monkeypatch.setenv("CLEARFOLD_DATA", str(tmp_path / "no such folder"))
    found = health.guarded("data", "CLEARFOLD_DATA", doctor.data_folder)
    assert found.state == "broken"


def test_a_server_that_does_not_answer_is_told_without_its_password() -> None:
    secret = "postgresql://somebody:hunter2@127.0.0.1:1/pathology"
    (found,) = doctor.asked(secret, None)
    assert found.state == "broken"
    assert "hunter2" not in str(found)
    assert "somebody" not in str(found)


def test_a_scheduler_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "WAIT_S", 1)
    (found,) = doctor.asked(None, "tcp://127.0.0.1:1")
    assert found.state == "broken"


def test_advice_names_each_command_once_and_what_is_broken_first() -> None:
    checks = [
        Check("web", "fastapi", "missing", "", "install web"),
        Check("web", "uvicorn", "missing", "", "install web"),
        Check("core", "numpy", "broken", "", "mend numpy"),
    ]
    assert doctor.advice(checks) == ["Broken: numpy. Do: mend numpy", "Missing: fastapi, uvicorn. Do: install web"]
    assert doctor.advice([Check("core", "numpy", "works", "")]) == ["Everything is installed and works."]
