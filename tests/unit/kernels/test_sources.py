"""A compiled core that does not match its sources is refused; wheels have no sources."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import dbanon.kernels
from dbanon.kernels import _kernels
from dbanon.kernels.sources import require_current, stamp

KERNELS_DIRECTORY = Path(dbanon.kernels.__file__).parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the package's top and its kernels, with the core that runs here."""
    directory = tmp_path / "checkout" / "dbanon" / "kernels"
    directory.parent.mkdir(parents=True)
    shutil.copy(KERNELS_DIRECTORY.parent / "__init__.py", directory.parent)
    shutil.copytree(KERNELS_DIRECTORY, directory, ignore=shutil.ignore_patterns("__pycache__"))
    if _kernels.__file__ is not None and not list(directory.glob("_kernels.*.so")):
        # An editable install has it elsewhere.
        shutil.copy(_kernels.__file__, directory)
    return directory


def imported(checkout: Path) -> subprocess.CompletedProcess[str]:
    # Before any path of an editable install, which finds dbanon first.
    code = "import sys; sys.meta_path = [f for f in sys.meta_path if 'ditable' not in repr(f)]\n"
    code += "import dbanon.kernels; print(dbanon.kernels.__file__, dbanon.kernels.Linkage)"
    paths = os.pathsep.join([str(checkout.parents[1]), *(p for p in sys.path if "site" in p)])
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        cwd=checkout.parents[1],
    )


def test_the_core_that_runs_is_of_these_sources() -> None:
    assert stamp(str(KERNELS_DIRECTORY)) == _kernels.SOURCES


@pytest.mark.parametrize(
    "change", ["changed", "added", "removed", "renamed", "moved", "older core"]
)
def test_other_sources_are_reported(checkout: Path, change: str) -> None:
    file = checkout / "points" / "mdav.cpp"
    if change == "changed":
        file.write_text(file.read_text().replace("a", "b", 1))
    elif change == "added":
        (checkout / "mixed" / "more.hpp").touch()
    elif change == "removed":
        file.unlink()
    elif change == "renamed":
        file.rename(file.with_name("mdav2.cpp"))
    elif change == "moved":
        file.rename(checkout / "mixed" / "mdav.cpp")
    older = SimpleNamespace() if change == "older core" else _kernels
    with pytest.raises(ImportError, match="make setup") as error:
        require_current(older, str(checkout))
    assert str(checkout.parents[1]) in str(error.value)


def test_an_import_is_refused_before_a_kernel_is_missed(checkout: Path) -> None:
    done = imported(checkout)
    assert done.returncode == 0, done.stderr
    assert str(checkout) in done.stdout
    (checkout / "points" / "linkage.hpp").write_text("// another version\n")
    done = imported(checkout)
    assert done.returncode != 0
    assert "make setup" in done.stderr.splitlines()[-1]


def test_a_wheel_without_sources_is_not_asked(checkout: Path) -> None:
    for file in [*checkout.rglob("*.[ch]pp"), checkout / "CMakeLists.txt"]:
        file.unlink()
    assert stamp(str(checkout)) is None
    require_current(SimpleNamespace(), str(checkout))
    done = imported(checkout)
    assert done.returncode == 0, done.stderr
    assert str(checkout) in done.stdout


def test_sources_that_cannot_be_read_are_not_asked(checkout: Path) -> None:
    """Files that a server's account may not read."""
    file = checkout / "points" / "mdav.cpp"
    file.unlink()
    file.symlink_to("nowhere")
    require_current(SimpleNamespace(), str(checkout))


def test_the_folders_of_the_sources_know_those_below_alone() -> None:
    """The layering of CMakeLists.txt; includes name the folder and file."""
    below = {
        "bind": {"bind", "points", "mixed", "common"},
        "points": {"points", "common"},
        "mixed": {"mixed", "common"},
        "common": {"common"},
    }
    sources = list(KERNELS_DIRECTORY.rglob("*.[ch]pp"))
    assert {file.parent for file in sources} == {KERNELS_DIRECTORY / folder for folder in below}
    for file in sources:
        for name in re.findall(r'#include "(.+)"', file.read_text()):
            assert (KERNELS_DIRECTORY / name).is_file(), f"{file.name}: {name}"
            assert name.split("/")[0] in below[file.parent.name], f"{file.name}: {name}"
