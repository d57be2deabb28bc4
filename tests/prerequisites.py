"""What a test needs and a machine may lack: the one place that decides to skip or to fail.

- A library, program or server that `make setup` or `make test` installs: `skip_or_fail` and
  `import_or_skip`. Its tests skip with the reason; with ``CI=true`` they fail.
- Reference data, which no public clone has: `require_reference`. A skip that names the file.
- What some systems never have, such as an account or a daemon: `only_where` and `skip_optional`.
- A case that does not exist, such as a type that a database lacks: `skip_case`.

tests/docs/test_prerequisites.py refuses any other skip.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

from tests.reference.data import VARIABLE, data_folder

IN_CI = os.environ.get("CI", "").lower() in ("true", "1")


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test because a library, program or server is missing; with ``CI=true`` it fails."""
    # A build that checks nothing on PostgreSQL must not look like one that does.
    if IN_CI:
        pytest.fail(f"missing: {reason}", pytrace=False)
    pytest.skip(f"missing: {reason}", allow_module_level=True)


def import_or_skip(name: str) -> ModuleType:
    """Import a module that `make setup` installs; skip the test, or its file, if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        # An installed module that fails to import is a bug, whoever needs it.
        if not isinstance(error, ModuleNotFoundError) or not _is_part(error.name, name):
            raise
        skip_or_fail(f"no package {error.name}; `make setup` installs it")


def _is_part(missing: str | None, name: str) -> bool:
    return missing is not None and (name + ".").startswith(missing + ".")


def require_reference(*files: str) -> Path:
    """The folder of the reference data, if it has these files; otherwise skip the test.

    files: paths in it, such as ``casc/census.csv``.
    """
    folder = data_folder()
    for name in files:
        if not (folder / name).is_file():
            pytest.skip(f"reference data: no {name} in {folder}, the folder that {VARIABLE} names")
    return folder


def only_where(condition: object, reason: str) -> pytest.MarkDecorator:
    """A mark: the test runs only on systems of this kind, in CI, too."""
    return pytest.mark.skipif(not condition, reason=f"system: {reason}")


def skip_optional(reason: str) -> NoReturn:
    """Skip a test whose requirement neither `make setup` nor `make test` is sure to install."""
    pytest.skip(f"optional: {reason}")


def skip_case(reason: str) -> NoReturn:
    """Skip a case that does not exist for this parameter."""
    pytest.skip(f"no such case: {reason}")
