"""The commands of examples/schedule, as tests run them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "schedule"

# The name of dbanon in the examples.
PROGRAM = Path(sys.executable).with_name("dbanon")


@dataclass(frozen=True)
class Site:
    """A directory in place of the one in an example, with a table to release."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Site:
        """Create job.yaml and a clinic."""
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(EXAMPLES / "job.yaml", folder)
        with duckdb.connect(str(folder / "clinic.duckdb")) as clinic:
            clinic.execute(
                "CREATE SCHEMA app; CREATE TABLE app.patient AS SELECT range AS patient_id,"
                " 'name ' || range AS full_name, DATE '1940-01-01' + (range * 37 % 20000)::INT"
                " AS birth_date, 20000 + range * 7919 % 60000 AS income,"
                " ['flu', 'asthma', 'gout'][1 + range * 5 % 3] AS diagnosis, now() AS updated_at"
                " FROM range(200)"
            )
        return cls(folder)

    @property
    def source(self) -> str:
        """The URL of the clinic."""
        return f"duckdb:///{self.folder / 'clinic.duckdb'}"

    def released(self) -> int:
        """The number of releases, by files and by the ledger, which must agree."""
        files = len(list(self.folder.rglob("patients/*.parquet")))
        with duckdb.connect(str(self.folder / "clinic.duckdb"), read_only=True) as clinic:
            ledger_tables = "SELECT count(*) FROM duckdb_tables() WHERE schema_name = 'dbanon'"
            [(tables,)] = clinic.execute(ledger_tables).fetchall()
            entries = 0
            if tables:
                [(entries,)] = clinic.execute("SELECT count(*) FROM dbanon.release").fetchall()
        assert files == entries
        return files


def run(
    command: str, site: Site, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a line as a scheduler does: with sh and hardly any environment."""
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "HOME": str(site.folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def answers(folder: Path, code: int) -> Path:
    """A directory with a program ``dbanon`` that only exits with a code."""
    folder.mkdir(exist_ok=True)
    program = folder / "dbanon"
    program.write_text(f"#!/bin/sh\nexit {code}\n")
    program.chmod(0o755)
    return folder


def link_program(folder: Path) -> Path:
    """A directory with only the real program."""
    folder.mkdir(exist_ok=True)
    os.symlink(PROGRAM, folder / "dbanon")
    return folder
