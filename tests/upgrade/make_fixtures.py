"""Make the databases of version 0.1.0 in ``fixtures/`` again, by its own wheel.

    python -m tests.upgrade.make_fixtures [--wheel FILE]

Builds the wheel from the revision of that version (it needs the checkout's history, a C++ compiler
and the package index), installs it into a temporary environment, and lets that make the databases:
a DuckDB and a SQLite file, and dumps of two PostgreSQL databases, one where the SQL side was
installed by script, one by extension, with the extension's files. They are committed; run this
again only to add something to them. PostgreSQL must run on this machine, with PL/Python, and
without dbanon's extension files.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

REVISION = "918ce4a"
FOLDER = Path(__file__).resolve().parent


def main() -> None:
    """Build, install, and run ``old_releases`` there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, help="the wheel, when it was built before")
    wheel = parser.parse_args().wheel
    with tempfile.TemporaryDirectory(prefix="dbanon-old-") as name:
        folder = Path(name)
        if wheel is None:
            wheel = _build(folder)
        environment = folder / "environment"
        _run(sys.executable, "-m", "venv", environment)
        python = environment / "bin" / "python"
        _run(python, "-m", "pip", "install", "--quiet", f"{wheel.resolve()}[postgres]")
        (FOLDER / "fixtures").mkdir(exist_ok=True)
        _run(python, FOLDER / "old_releases.py", FOLDER / "fixtures", cwd=folder)


def _build(folder: Path) -> Path:
    source, archive = folder / "source", folder / "source.tar"
    source.mkdir()
    root = FOLDER.parents[1]
    _run("git", "-C", root, "archive", "--output", archive, REVISION)
    _run("tar", "-xf", archive, "-C", source)
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, source)
    [wheel] = folder.glob("dbanon-*.whl")
    return wheel


def _run(*command: object, cwd: Path | None = None) -> None:
    subprocess.run([str(part) for part in command], check=True, cwd=cwd)


if __name__ == "__main__":
    main()
