"""A copy of dbanon and numpy that a database server may read.

The test environment may be in a directory that the server's account cannot read, or be an editable
install, which only works with its own interpreter.
"""

from __future__ import annotations

import compileall
import importlib.util
import os
import shutil
from importlib import metadata
from pathlib import Path

import numpy as np

import dbanon
from dbanon.kernels import _kernels


def copy_package(folder: Path) -> Path:
    """Copy dbanon, its compiled core and numpy into ``folder``, readable by everybody."""
    skip = shutil.ignore_patterns("*.cpp", "*.hpp", "tests", "*.pyi")
    shutil.copytree(Path(dbanon.__file__).parent, folder / "dbanon", ignore=skip)
    core = Path(_kernels.__file__)
    shutil.copy2(core, folder / "dbanon" / "kernels" / core.name)
    packages = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (packages / name).exists():
            shutil.copytree(packages / name, folder / name, ignore=skip)
    described = folder / f"dbanon-{metadata.version('dbanon')}.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: dbanon\nVersion: {metadata.version('dbanon')}\n"
    )
    # Compile as pip does: the server's account cannot write here and would compile for each
    # connection.
    compileall.compile_dir(folder, quiet=2)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def link_opendp(folder: Path) -> Path:
    """Put OpenDP into ``folder``, readable by everybody; hard links if possible, as it is large."""

    def linked(source: str, target: str) -> str:
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)
        return target

    for name in ("opendp", "deprecated", "wrapt"):
        package = importlib.util.find_spec(name)
        assert package is not None
        assert package.origin is not None
        shutil.copytree(
            Path(package.origin).parent,
            folder / name,
            copy_function=linked,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    # OpenDP looks up its own version.
    described = folder / f"opendp-{metadata.version('opendp')}.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: opendp\nVersion: {metadata.version('opendp')}\n"
    )
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    return folder
