"""Inside a database every import costs each connection: what is imported, and what is not."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "sqlalchemy", "pandas", "click", "rich", "duckdb", "pyarrow", "psycopg", "alembic", "jinja2",
}  # fmt: skip

PARTITION = (
    "import numpy, dbanon;"
    "assert dbanon.partition(numpy.arange(12.0).reshape(6, 2), 3).n_classes == 2"
)


@pytest.mark.parametrize("code", ["import dbanon", "import dbanon.partitioning.classes", PARTITION])
def test_the_core_needs_numpy_only(code: str) -> None:
    told = f"{code}\nimport sys\nprint(*sorted({{n.partition('.')[0] for n in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint(done.stdout.split())
    if code != "import dbanon":
        assert "numpy" in done.stdout.split()
