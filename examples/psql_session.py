"""Start a throw-away server, install dbanon in it, and run psql_session.sql in psql.

The server needs PL/Python; dbanon and numpy are copied to where its account can read them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from dbanon.doors import install
from tests.backend_package import copy_package
from tests.postgres.tools import binary
from tests.postgres_server import libpq_environment, throwaway_server

SESSION = Path(__file__).with_name("psql_session.sql")


def main() -> None:
    """Print the session: each statement, and what it gives."""
    folder = Path(tempfile.mkdtemp(prefix="dbanon-package-"))
    folder.chmod(0o755)
    try:
        with throwaway_server(fsync=False, kind="local") as server, server.database() as url:
            (folder / "site").mkdir()
            install.install(url, python_paths=[str(copy_package(folder / "site"))])
            server.execute("CREATE SCHEMA release", url=url)
            sys.stdout.flush()
            # Both streams in one, so that errors and notices stand where they came.
            with SESSION.open() as session:
                subprocess.run(
                    [binary("psql"), "-X", "-a"],
                    stdin=session,
                    env={**os.environ, **libpq_environment(url), "PSQL_PAGER": ""},
                    stderr=subprocess.STDOUT,
                    check=True,
                )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
