"""Another version of dbanon beside this one in the same run, by the interpreter that has it.

Each version has databases of its own, because neither reads the other's ledger, and they take
turns, so that what else the machine does falls on both.
"""

from __future__ import annotations

import compileall
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.markdown import table
from tests.backend_package import copy_package

INSTALL = """
import sys
try:
    from dbanon.doors import install
except ImportError:  # Version 0.1.0 has it elsewhere.
    from dbanon import install
install.install(sys.argv[1], python_paths=[sys.argv[2]])
"""

WHERE = """
from importlib import metadata
from pathlib import Path
import dbanon, numpy
print(Path(dbanon.__file__).parent, Path(numpy.__file__).parents[1], metadata.version("dbanon"))
"""

Seconds = Mapping[str, float]


@dataclass(frozen=True)
class Version:
    """A version of dbanon, by the interpreter that runs it."""

    name: str
    python: str

    def run(self, code: str, *arguments: str) -> str:
        """What a program prints there; -I: the installed package, as in `make bench`."""
        done = subprocess.run(
            [self.python, "-I", "-c", code, *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout

    def package(self, folder: Path) -> Path:
        """A copy of the package and numpy that a server may read."""
        folder.mkdir()
        if self.python == sys.executable:
            return copy_package(folder)
        package, site, version = self.run(WHERE).split()
        shutil.copytree(package, folder / "dbanon")
        for name in ("numpy", "numpy.libs", f"dbanon-{version}.dist-info"):
            if (Path(site) / name).exists():
                shutil.copytree(Path(site) / name, folder / name)
        compileall.compile_dir(folder, quiet=2)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return folder

    def install(self, url: str, package: Path) -> None:
        """Install the SQL side of this version."""
        self.run(INSTALL, url, str(package))


def versions(beside: str | None) -> list[Version]:
    """This version, and the other one where there is one."""
    found = [Version("this", sys.executable)]
    if beside is not None:
        name = Version("", beside).run("import dbanon; print(dbanon.__version__)").strip()
        found.append(Version(name, beside))
    return found


def medians(measured: Mapping[tuple[str, str], Sequence[Seconds]], phases: Sequence[str]) -> str:
    """A table of the ratio of median seconds of each phase, and of these, by what and version.

    Parameters
    ----------
    measured : seconds of each run by what was measured and the version's name, this one first.
    """
    rows: list[list[object]] = []
    for what in dict.fromkeys(what for what, _ in measured):
        names = [name for found, name in measured if found == what]
        if len(names) < 2:
            continue
        this, other = (measured[what, name] for name in names)
        for phase in phases:
            ours, theirs = (
                statistics.median(run.get(phase, 0.0) for run in runs) for runs in (this, other)
            )
            ratio = ours / theirs if theirs else ""
            rows.append([ratio, what, phase, ours, theirs])
    if not rows:
        return ""
    other_name = next(name for _, name in measured if name != "this")
    header = ["ratio", "median of runs in turn", "phase", "this", other_name]
    return "\n" + table(header, rows)
