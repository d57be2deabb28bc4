"""The pages on the code: what they name exists, and their recipes work in a copy of the tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from dbanon.kernels import _kernels
from tests.docs import names
from tests.house import PACKAGE, rooms_from_above

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
EXTENDING = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
ADDED = re.findall(r"^## (Add .*)$", EXTENDING, re.M)
BLOCK = re.compile(r"<!-- (file|change|run)(?:: (\S+))? -->\n```(\w+)\n(.*?)```", re.S)
FOLDERS = ("dbanon", "sql", "migrations", "docs", "tests")
FILES = ("README.md", "CHANGELOG.md", "pyproject.toml")

# Suites over all methods and options, which an addition must not break. Two doors stand for all of
# them: these have the texts of all commands, and releases in a database.
_DOOR = "tests/golden/test_golden.py::test_a_door_gives_the_recorded_results"
LEFT_GREEN = (
    f"{_DOOR}[cli]",
    f"{_DOOR}[duckdb]",
    "tests/golden/test_golden.py::test_only_additions_are_left_out",
    "tests/contracts/test_options.py",
    "tests/docs/test_docs.py::test_every_command_and_its_options_are_documented",
    "tests/docs/test_docs.py::test_every_method_is_documented",
    "tests/docs/test_architecture.py",
    "tests/doors/jobs/test_keys.py",
    "tests/doors/test_option_groups.py",
    "tests/unit/job",
    "--deselect=tests/docs/test_architecture.py::test_recipes_work",
)

PROGRAMS = {"python": (sys.executable, "-W", "error"), "bash": ("bash", "-euo", "pipefail")}

# An editable install finds its own sources before it searches any path.
SITE = """import sys
sys.meta_path[:] = [f for f in sys.meta_path if "dbanon" not in type(f).__module__]
"""


def section(title: str, page: str = ARCHITECTURE) -> str:
    """The text below a heading of the second level."""
    match = re.search(rf"^## {title}$(.*?)(?=^## |\Z)", page, re.M | re.S)
    assert match, f"no heading {title!r}"
    return match[1]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the checkout with the compiled core, which programs run in it import."""
    # With compiled modules, which are valid while their sources stay; not those being written now.
    left_out = shutil.ignore_patterns("*.pyc.*", "figures")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=left_out)
    for name in FILES:
        shutil.copy2(ROOT / name, tmp_path / name)
    core = Path(_kernels.__file__)
    shutil.copy2(core, tmp_path / "dbanon" / "kernels" / core.name)
    (tmp_path / "sitecustomize.py").write_text(SITE)
    return tmp_path


def run(checkout: Path, *command: str) -> str:
    """The output of a program that imports the copy."""
    programs = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(checkout),
        "PYTEST_ADDOPTS": "--hypothesis-profile=check",
    }
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def apply_change(text: str, change: str) -> str:
    """Apply a change to a text: hunks of unchanged, removed and added lines, separated by @@."""
    for piece in re.split(r"^@@.*\n", change, flags=re.M):
        lines = piece.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if not line.startswith("+"))
        after = "".join(line[1:] for line in lines if not line.startswith("-"))
        assert text.count(before) == 1, f"not once in the file:\n{before}"
        text = text.replace(before, after)
    return text


def blocks(title: str) -> Iterator[tuple[str, str, str, str]]:
    """Kind, path, language and text of the marked blocks in a section."""
    for match in BLOCK.finditer(section(title, EXTENDING)):
        yield match[1], match[2] or "", match[3], match[4]


def add(checkout: Path, title: str) -> int:
    """Follow a section's instructions; return the number of blocks that were run."""
    ran = 0
    for action, path, language, code in blocks(title):
        file = checkout / path
        if action == "file":
            assert not file.exists()
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(code, encoding="utf-8")
        elif action == "change":
            file.write_text(apply_change(file.read_text(encoding="utf-8"), code), encoding="utf-8")
        else:
            arguments = {
                "python": (sys.executable, "-W", "error"),
                "bash": ("bash", "-euo", "pipefail"),
            }
            run(checkout, *arguments[language], "-c", code)
            ran += 1
    return ran


@pytest.mark.slow
def test_recipes_work(checkout: Path) -> None:
    """Each recipe is applied on top of the previous one; the result is checked once."""
    assert len(ADDED) == 5
    for title in ADDED:
        assert add(checkout, title) >= 1, title
    output = run(checkout, sys.executable, "-c", "import dbanon; print(dbanon.__file__)")
    assert Path(output.strip()).parent == checkout / "dbanon"
    # No existing result may change, on any page or in any interface.
    run(checkout, sys.executable, "-m", "pytest", "-q", *LEFT_GREEN, "-m", "not postgresql")
    # The additions must follow the code style and the layers.
    run(checkout, "ruff", "check", "--no-cache", "dbanon")
    run(checkout, "ruff", "format", "--no-cache", "--check", "dbanon")
    run(checkout, "lint-imports", "--no-cache")


def test_all_rooms_are_in_the_picture_from_above() -> None:
    picture = (ROOT / "docs" / "architecture.svg").read_text(encoding="utf-8")
    room_names = re.findall(r'class="room"[^>]*>(\w+)<', picture)
    rooms = {file.name for file in PACKAGE.iterdir() if (file / "__init__.py").exists()}
    assert set(room_names) == rooms
    height = {name: level for level, row in enumerate(rooms_from_above()) for name in row}
    assert [height[name] for name in room_names] == sorted(height[name] for name in room_names)


def test_terms_are_classes_in_the_rooms_on_the_map() -> None:
    words = re.findall(r"\*\*(\w+)\*\* \(`([\w.]+)`\)", section("A row's way"))
    assert len(words) == 7
    for name, module in words:
        assert isinstance(getattr(import_module(module), name), type), name


def test_what_goes_where_is_there() -> None:
    added = {path for title in ADDED for _, path, _, _ in blocks(title)}
    named = re.findall(r"`([\w.]+/[\w./]*|\w+\.(?:py|cpp))`", ARCHITECTURE + EXTENDING)
    assert len(named) > 15
    missing = [
        name
        for name in named
        if name not in added
        and not any((base / name).exists() for base in (ROOT, PACKAGE, PACKAGE / "stores"))
    ]
    assert not missing


def test_modules_have_names_that_say_what_they_hold() -> None:
    assert not [str(use) for use in names.vague_modules()]


@pytest.mark.parametrize("name", ["found", "together", "report_more", "utils", "Report", "a"])
def test_a_name_that_says_nothing_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = tmp_path / "dbanon" / "release"
    room.mkdir(parents=True)
    for stem in ("__init__", "report", "found_rows", name):
        (room / f"{stem}.py").touch()
    monkeypatch.setattr(names, "ROOT", tmp_path)
    assert [use.text for use in names.vague_modules()] == [name]


def test_the_words_of_the_page_are_few() -> None:
    """A newcomer reads them all; users have a glossary of their own."""
    rows = re.findall(r"^\| (`.*?) \|", section("Words"), re.M)
    terms = [term for row in rows for term in re.findall(r"`([^`]+)`", row)]
    assert 20 <= len(terms) <= 40
    assert len(terms) == len(set(terms))
