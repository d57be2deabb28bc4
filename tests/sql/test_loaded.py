"""Most test backends start with dbanon preloaded; tests of how it is loaded do not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., list[tuple[Any, ...]]]

_PYTHON = """CREATE FUNCTION app.python(what text) RETURNS text LANGUAGE plpython3u AS $$
import os, sys
return str(eval(what))
$$"""


def evaluate(run_sql: Run, expression: str) -> str:
    """Evaluate a Python expression in a new backend."""
    [(value,)] = run_sql("SELECT app.python(%s)", expression)
    return str(value)


def test_a_backend_begins_with_dbanon_loaded(run_sql: Run) -> None:
    run_sql(_PYTHON)
    # Without a compiler backends load it themselves, and tests take longer.
    has_compiler = shutil.which("cc") is not None
    assert evaluate(run_sql, "'dbanon.doors.plpython' in sys.modules") == str(has_compiler)
    # Functions find it on the paths of their installation.
    assert evaluate(run_sql, "[one for one in sys.path if 'dbanon-package' in one]") == "[]"
    run_sql("SELECT dbanon.check()")
    assert evaluate(run_sql, "[one for one in sys.path if 'dbanon-package' in one]") != "[]"


@pytest.mark.own_python
def test_a_backend_has_one_thread(run_sql: Run) -> None:
    run_sql(_PYTHON)
    run_sql("SELECT dbanon.check()")
    assert evaluate(run_sql, "'numpy' in sys.modules") == "True"
    assert evaluate(run_sql, "len(os.listdir('/proc/self/task'))") == "1"


@pytest.mark.own_python
def test_a_backend_loads_it_itself(run_sql: Run) -> None:
    run_sql(_PYTHON)
    assert evaluate(run_sql, "'numpy' in sys.modules") == "False"
    run_sql("SELECT dbanon.check()")
    assert evaluate(run_sql, "'dbanon.doors.plpython' in sys.modules") == "True"


@pytest.mark.own_python
def test_the_first_call_exempts_modules_from_garbage_collection(run_sql: Run) -> None:
    run_sql(_PYTHON)
    assert evaluate(run_sql, "__import__('gc').get_freeze_count()") == "0"
    run_sql("SELECT dbanon.check()")
    n_exempt = evaluate(run_sql, "__import__('gc').get_freeze_count()")
    assert int(n_exempt) > 10_000
    assert evaluate(run_sql, "__import__('gc').isenabled()") == "True"
    # A later call does not exempt what the connection has made since.
    run_sql("SELECT dbanon.check()")
    assert int(evaluate(run_sql, "__import__('gc').get_freeze_count()")) <= int(n_exempt)
