"""Databases of version 0.1.0, created by its own package: run by an interpreter that has it.

`make_fixtures` runs this. Tests import nothing from here, since they test another version.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

# After the installed package, which has the same name as the checkout's.
sys.path.append(str(Path(__file__).resolve().parents[2]))

import duckdb
from sqlalchemy import NullPool, create_engine

import dbanon
from dbanon.doors import install
from tests.backend_package import copy_package
from tests.postgres_server import (
    Server,
    find_server_binaries,
    libpq_environment,
    throwaway_server,
)

VERSION = "0.1.0"
SCHOOLS = {
    "primary": "school",
    "secondary": "school",
    "bachelor": "university",
    "master": "university",
    "school": "*",
    "university": "*",
}
LEAVES = ("primary", "secondary", "bachelor", "master")
ILLS = ("flu", "cough", "gout")

# 60 rows of 20 persons.
COLUMNS = "id integer PRIMARY KEY, person integer, age integer, cost {decimal}, school {text},"
COLUMNS += " ill {text}"
ROWS = ", ".join(
    f"({i}, {i // 3}, {20 + i // 3 * 7 % 40}, {i * 37 % 100}.25, '{LEAVES[i * 7 % 4]}',"
    f" '{ILLS[i % 3]}')"
    for i in range(60)
)
JOB: dict[str, Any] = {"table": "app.people", "quasi_identifiers": ["age", "cost"], "k": 3}
TREE = [[leaf, SCHOOLS[leaf], "*"] for leaf in LEAVES]


def release_all(target: Any, store: Callable[[], None]) -> None:
    """The client's releases, made in every database."""
    dbanon.anonymize(target, **JOB, output="release.plain", sensitive=["ill"])
    for k in (3, 4, 5):
        dbanon.anonymize(
            target,
            **(JOB | {"k": k}),
            output="release.shown",
            output_kind="view",
            if_exists="replace" if k > 3 else "error",
            keep=["ill"],
        )
    dbanon.anonymize(
        target,
        **JOB,
        output="release.alone",
        method="individual_ranking",
        guarantee="per_attribute",
    )
    dbanon.anonymize(target, **JOB, output="release.persons", entity="person")
    dbanon.anonymize(
        target,
        **JOB,
        output="release.modelled",
        sensitive=["ill"],
        models=[dbanon.Model("distinct_l", "ill", 2)],
    )
    store()
    dbanon.anonymize(
        target,
        table="app.people",
        quasi_identifiers=["age", "school"],
        k=3,
        output="release.trees",
        method="gaa_cp",
        hierarchies={"school": {"name": "schools"}},
        intervals="bounds",
    )


def make_duckdb(path: Path) -> None:
    """A DuckDB file with small blocks, which keep it small."""
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{path}' AS made (BLOCK_SIZE 16384)")
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE SCHEMA app")
        body = COLUMNS.format(decimal="DECIMAL(10,2)", text="VARCHAR")
        connection.execute(f"CREATE TABLE app.people ({body})")
        connection.execute(f"INSERT INTO app.people VALUES {ROWS}")
    url = f"duckdb:///{path}"
    release_all(url, lambda: store_tree(url))


def make_sqlite(path: Path) -> None:
    """A SQLite file."""
    import sqlite3

    connection = sqlite3.connect(path)
    body = COLUMNS.format(decimal="DECIMAL(10,2)", text="TEXT")
    connection.execute(f"CREATE TABLE app_people ({body})")
    connection.execute(f"INSERT INTO app_people VALUES {ROWS}")
    connection.commit()
    connection.close()
    url = f"sqlite:///{path}"
    release_all(url, lambda: store_tree(url))


def store_tree(url: Any) -> None:
    dbanon.store_hierarchy(url, "schools", dbanon.Hierarchy.from_levels(TREE))


def make_postgresql(server: Server, folder: Path, package: Path, extension: bool) -> None:
    """The text of a dump; for the extension, also its files."""
    name = "extension" if extension else "script"
    with server.database() as url:
        install.install(url, python_paths=[str(package)], extension=extension)
        clerk = server.create_role("old_clerk", url=url, options="IN ROLE dbanon_runner")
        server.create_role("old_auditor", url=url, options="IN ROLE dbanon_reader")
        for statement in (
            "CREATE SCHEMA app",
            "CREATE SCHEMA release",
            f"CREATE TABLE app.people ({COLUMNS.format(decimal='numeric(10,2)', text='text')})",
            f"INSERT INTO app.people VALUES {ROWS}",
            "GRANT USAGE ON SCHEMA app TO old_clerk",
            "GRANT SELECT ON app.people TO old_clerk",
            "GRANT USAGE, CREATE ON SCHEMA release TO old_clerk",
            "GRANT USAGE ON SCHEMA release TO old_auditor",
        ):
            server.execute(statement, url=url)
        # As a runner's client; only administrators store hierarchies.
        release_all(create_engine(clerk, poolclass=NullPool), lambda: store_tree(url))
        for statement in (
            "SELECT dbanon.mdav('app.people', 'release.by_call', '{age,cost}', 3,"
            " sensitive => '{ill}')",
            "SELECT dbanon.gaa_cp('app.people', 'release.trees_by_call', '{age,school}', 3,"
            """ hierarchies => '{"school": {"name": "schools"}}')""",
            "GRANT SELECT ON release.shown, release.plain TO old_auditor",
        ):
            server.execute(statement, url=clerk)
        dump = subprocess.run(
            [str(find_server_binaries() / "pg_dump")],
            env={**os.environ, **libpq_environment(url)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    # Meta-commands of newer programs that older ones do not know.
    lines = [line for line in dump.splitlines() if not line.startswith(("\\restrict", "\\unres"))]
    keep(folder / f"{name}.sql.gz", "\n".join(lines).replace(str(package), "/nowhere").encode())
    if extension:
        for file in install.write_extension(package.parent, [str(package)]):
            text = file.read_text().replace(str(package), "/nowhere")
            keep(folder / f"{file.name}.gz", text.encode())


def keep(path: Path, content: bytes) -> None:
    path.write_bytes(gzip.compress(content, mtime=0))


def main(folder: Path) -> None:
    """Create all fixtures in a folder."""
    assert dbanon.__version__ == VERSION, dbanon.__version__
    home = install.extension_directory()
    if list(home.glob("dbanon*")):
        raise SystemExit(f"There are files of dbanon in {home} already: they would be replaced.")
    work = Path(tempfile.mkdtemp(prefix="dbanon-old-"))
    work.chmod(0o755)
    try:
        for make, name in ((make_duckdb, "old.duckdb"), (make_sqlite, "old.db")):
            make(work / name)
            keep(folder / f"{name}.gz", (work / name).read_bytes())
        (work / "site").mkdir()
        package = copy_package(work / "site")
        with throwaway_server(fsync=False, kind="local") as server:
            for extension in (False, True):
                make_postgresql(server, folder, package, extension)
    finally:
        shutil.rmtree(work)
        for file in ("dbanon.control", f"dbanon--{VERSION}.sql"):
            with suppress(OSError):
                (home / file).unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
