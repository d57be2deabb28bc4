"""Compare another version of dbanon with this one in the same run, through its interpreter.

Each version has its own databases, because neither reads the other's ledger. Versions take turns,
so that other load on the machine affects both.
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

from benchmarks.markdown import NotMeasuredError, table
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
from dbanon.kernels import _kernels
print(Path(dbanon.__file__).parent, Path(numpy.__file__).parents[1], metadata.version("dbanon"))
print(_kernels.__file__)
"""

Seconds = Mapping[str, float]


@dataclass(frozen=True)
class Version:
    """A version of dbanon and the interpreter that runs it."""

    name: str
    python: str

    def run(self, code: str, *arguments: str) -> str:
        """Run a program and return its output; -I: the installed package, as in `make bench`."""
        process = subprocess.run(
            [self.python, "-I", "-c", code, *arguments], check=True, capture_output=True, text=True
        )
        return process.stdout

    def package(self, folder: Path) -> Path:
        """Copy the package and numpy to where a server can read them."""
        folder.mkdir()
        if self.python == sys.executable:
            return copy_package(folder)
        package, site, version, compiled_core = self.run(WHERE).split()
        shutil.copytree(package, folder / "dbanon")
        # Of an editable install it lies elsewhere.
        shutil.copy(compiled_core, folder / "dbanon" / "kernels")
        for name in ("numpy", "numpy.libs", f"dbanon-{version}.dist-info"):
            if (Path(site) / name).exists():
                shutil.copytree(Path(site) / name, folder / name)
        compileall.compile_dir(folder, quiet=2)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return folder

    def install(self, url: str, package: Path) -> None:
        """Install the SQL functions of this version."""
        self.run(INSTALL, url, str(package))


def split_interpreters(other_python: str | None) -> tuple[str, str]:
    """Split ``--beside`` into the interpreters of another version and of peers.

    Raises
    ------
    NotMeasuredError : the two were not given.
    """
    if other_python is None or "," not in other_python:
        raise NotMeasuredError("name by --beside an interpreter of another version, and of peers")
    old, _, peers = other_python.partition(",")
    return old, peers


def versions(other_python: str | None) -> list[Version]:
    """This version, and the other one if there is one."""
    known_versions = [Version("this", sys.executable)]
    if other_python is not None:
        name = Version("", other_python).run("import dbanon; print(dbanon.__version__)").strip()
        known_versions.append(Version(name, other_python))
    return known_versions


def medians(measured: Mapping[tuple[str, str], Sequence[Seconds]], phases: Sequence[str]) -> str:
    """Tabulate the ratio of median seconds per phase and the medians, by subject and version.

    Parameters
    ----------
    measured : seconds of each run by subject and version name, this version first.
    """
    rows: list[list[object]] = []
    for subject in dict.fromkeys(subject for subject, _ in measured):
        names = [name for measured_subject, name in measured if measured_subject == subject]
        if len(names) < 2:
            continue
        this_runs, other = (measured[subject, name] for name in names)
        for phase in phases:
            ours, theirs = (
                statistics.median(run.get(phase, 0.0) for run in runs)
                for runs in (this_runs, other)
            )
            ratio = ours / theirs if theirs else ""
            rows.append([ratio, subject, phase, ours, theirs])
    if not rows:
        return ""
    other_name = next(name for _, name in measured if name != "this")
    header = ["ratio", "median of runs in turn", "phase", "this", other_name]
    return "\n" + table(header, rows)
