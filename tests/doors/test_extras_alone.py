"""With a single extra every interface works, or says what it needs.

Simulated by a process that hides all other packages; nothing is downloaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbanon.errors.extras import quote_requirements
from tests.doors import without

# Modules that readers import by name.
MODULES = ("dbanon", "dbanon.errors", "dbanon.spark", "dbanon.sklearn")
COMMAND = "from dbanon.doors.cli.start import start\nsys.argv = ['dbanon', *{words!r}]\nstart()\n"
# The calls of an interface, on rows of numbers; others are refused by name.
DOORS = {
    "arrays": "dbanon.partition(rows, 5); dbanon.information_loss(rows, dbanon.partition(rows, 5))",
    "evaluate": "dbanon.evaluate(rows, rows)",
    "bound": "dbanon.lower_bound(rows, 5)",
    "certificate": "dbanon.certificate(rows, k=5)",
    "frame": "dbanon.anonymize_frame({'a': list(range(30))}, quasi_identifiers=['a'], k=5)",
    "advise frame": "dbanon.advise({'a': list(range(30))})",
    "arrow": "dbanon.anonymize([], table='t', output='o', target='duckdb:///x.duckdb', **asked)",
    "file": "dbanon.anonymize('file:people.csv', table='people', output='o',"
    " exports=['o.parquet'], **asked)",
    "duckdb": "dbanon.anonymize('duckdb:///x.duckdb', table='t', output='o', **asked)",
    "sqlite": "dbanon.anonymize('sqlite:///x.db', table='t', output='o', **asked)",
    "postgresql": "dbanon.releases('postgresql://nobody@127.0.0.1:1/none')",
    "mariadb": "dbanon.releases('mysql+pymysql://nobody@127.0.0.1:1/none')",
    "other": "dbanon.anonymize('oracle://nobody@127.0.0.1:1/none', table='t', output='o',"
    " target='duckdb:///x.duckdb', kept_columns='client', **asked)",
    "s3": "dbanon.plan('s3://bucket/people.csv', table='t', output='o', **asked)",
    "delta": "dbanon.plan('delta:s3://bucket/t', table='t', output='o', kept_columns='client',"
    " **asked)",
    "iceberg": "dbanon.plan('iceberg:lake', table='a.t', output='o', kept_columns='client',"
    " **asked)",
    "job": "dbanon.run_job('job.yaml')",
    "dp": "dbanon.synthesize(np.ones((900, 1)), method='dp_ranks', epsilon=1.0, types='number',"
    " bounds={'column 0': (0.0, 1.0)}, budget=dbanon.Budget(3.0))",
    "spark": "from dbanon.spark import open_session; open_session('spark://127.0.0.1:1')",
    "sklearn": "from dbanon.sklearn import *",
}
# The interface that an extra is for works with this extra only.
OWN_CALLS = {
    "duckdb": "file",
    "frame": "frame",
    "bound": "bound",
    "dp": "dp",
    "spark": "import dbanon.spark",
    "sklearn": "import dbanon.sklearn",
}
TRIED = """
import json, os, sys, warnings
os.chdir({place!r})
warnings.simplefilter("ignore")
found = {{}}
def tried(name, code):
    import numpy as np
    import dbanon
    rows = np.random.default_rng(0).normal(size=(60, 2))
    asked = {{"quasi_identifiers": ["a"], "k": 5}}
    try:
        exec(code, {{"np": np, "dbanon": dbanon, "rows": rows, "asked": asked}})
        found[name] = ["ran", "", ""]
    except Exception as error:
        code = getattr(error, "code", "RAW " + type(error).__name__)
        found[name] = [code, getattr(error, "hint", None) or "", str(error)]
for module in {modules!r}:
    tried("import " + module, "import " + module)
for name, code in {doors!r}.items():
    tried(name, code)
print(json.dumps(found))
"""


def single_extras() -> list[str]:
    return sorted(set(without.extras()) - {"all", "dev", "bench", "docs"})


# For all extras, including object stores and Spark.
HIDDEN = frozenset().union(*map(without.packages, single_extras()))


@pytest.mark.slow
@pytest.mark.parametrize("extra", single_extras())
def test_every_door_with_one_extra(extra: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("a,b\n" + "\n".join(f"{i},{i}" for i in range(30)))
    code = TRIED.format(place=str(tmp_path), modules=MODULES, doors=DOORS)
    results: dict[str, Any] = without.result_of(code, (extra,), HIDDEN)
    raw = {name: result for name, result in results.items() if result[0].startswith("RAW")}
    assert raw == {}
    for name, (outcome, hint, _) in results.items():
        if outcome == "missing_dependency":
            assert "Install" in hint or "Java" in hint, (name, hint)
    if extra in OWN_CALLS:
        assert results[OWN_CALLS[extra]][0] == "ran", results[OWN_CALLS[extra]]


@pytest.mark.slow
@pytest.mark.parametrize("extra", single_extras())
def test_the_command_with_one_extra(extra: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("a,b\n" + "\n".join(f"{i},{i}" for i in range(30)))
    advise = ["advise", f"file:{tmp_path}/people.csv", "--table", "people"]
    # Without click all commands end alike: test_extras.py has others.
    for words in (["--version"], advise) if extra == "cli" else (advise,):
        done = without.run("import sys\n" + COMMAND.format(words=words), (extra,), HIDDEN)
        assert "Traceback" not in done.stderr, done.stderr
        if words == ["--version"]:
            assert done.returncode == 0
            continue
        assert done.returncode == 2
        assert "missing_dependency" in done.stderr
        assert quote_requirements("duckdb" if extra == "cli" else "cli") in done.stderr
