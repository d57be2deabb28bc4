"""Release 1,000,000 rows like Adult through PostgreSQL: seconds, memory and loss, by blocks or not.

Needs the reference data (``DBANON_DATA``). The server is a temporary one with default settings,
including fsync, and tables are logged. The client's memory is measured in a separate process.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import adult
from benchmarks.markdown import NotMeasuredError, table
from tests.postgres_server import NoServerError, Server, conninfo, throwaway_server

BLOCK = 50_000
CASES: tuple[dict[str, Any], ...] = (
    {},
    {"block_size": BLOCK},
    {"refine": "fast"},
    {"block_size": BLOCK, "refine": "fast"},
)

JOB = """
import json, sys, time
from pathlib import Path
import dbanon
url, output, columns, files, options = sys.argv[1], sys.argv[2], *map(json.loads, sys.argv[3:])
report = dbanon.anonymize(
    url, table="app.adult", quasi_identifiers=columns, k=5, output=output, method="gaa_cp",
    hierarchies=files, keep=["note"], **options,
)
# Not ru_maxrss, which knows the process that started this one.
status = Path("/proc/self/status").read_text()
memory = int(status.split("VmHWM:")[1].split()[0]) / 1024
print(json.dumps({"seconds": dict(report.seconds), "memory": memory, "cpu": time.process_time(),
                  "own": report.internal.information_loss_before_rounding,
                  "released": report.internal.information_loss, "k": report.k_achieved}))
"""


def run(quick: bool = False) -> str:
    """Measure both sizes; return Markdown."""
    text = "# GAA-CP on rows like Adult through PostgreSQL, k = 5\n\n"
    data = adult.load()
    rows = []
    try:
        with throwaway_server() as server, server.database() as url:
            server.execute("CREATE SCHEMA app", url=url)
            for n in (10_000,) if quick else (100_000, 1_000_000):
                distinct = _load(server, url, data.resampled(n))
                for i, options in enumerate(CASES):
                    seconds_before = _server_seconds(server)
                    result = _job(url, f"release.r{n}_{i}", data, options)
                    result["server"] = _server_seconds(server) - seconds_before
                    rows.append(_row(n, distinct, options, result))
                server.execute("DROP TABLE app.adult", url=url)
    except NoServerError as error:
        raise NotMeasuredError(str(error)) from None
    header = ["rows", "distinct", "blocks of", "refine", "read s", "cluster s", "write s"]
    header += [
        "verify s",
        "total s",
        "client CPU s",
        "server CPU s",
        "client MiB",
        "iloss, own",
        "iloss, written",
    ]
    load = f"\nLoad average at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n"
    return text + INTRODUCTION + table(header, rows) + load


INTRODUCTION = f"""Adult's eight quasi-identifiers, rows drawn with replacement and 9 % of the
values drawn anew, with a kept text column; from the table to the released and recounted one, each
measured once. *iloss* is the sum over rows and columns, on the classes' own ranges and for the
labels that were written. Blocks hold {BLOCK:,} rows and are worked on by all cores; refinement cuts
them twice, in different directions. CPU seconds are those of the client's process and of the
server's sessions for it; the other seconds are by the clock.

"""


def _load(server: Server, url: str, data: adult.Adult) -> int:
    """Fill ``app.adult``, and return the number of distinct rows."""
    frame = data.frame
    names = ", ".join(f'"{name}"' for name in frame.columns)
    types = ", ".join(
        f'"{name}" {"integer" if name == "age" else "text"}' for name in frame.columns
    )
    server.execute(f"CREATE TABLE app.adult ({types}, note text)", url=url)
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        copy = f"COPY app.adult ({names}) FROM STDIN (FORMAT csv)"
        with connection.cursor() as cursor, cursor.copy(copy.encode()) as stream:
            stream.write(frame.to_csv(index=False, header=False))
        connection.execute("UPDATE app.adult SET note = 'note ' || ctid::text")
        connection.execute("VACUUM FULL ANALYZE app.adult")
        query = f"SELECT count(*) FROM (SELECT DISTINCT {names} FROM app.adult)"
        [(distinct,)] = connection.execute(f"{query} AS d".encode()).fetchall()
    return int(distinct)


def _job(url: str, output: str, data: adult.Adult, options: dict[str, Any]) -> dict[str, Any]:
    # -I: the installed package, as in `make bench`.
    command = [sys.executable, "-I", "-c", JOB, url, output]
    command += map(json.dumps, (list(data.frame.columns), data.files, options))
    process = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(process.stdout)
    return result


def _server_seconds(server: Server) -> float:
    """CPU seconds of ended sessions; unknown for a server in a container."""
    stat = Path(f"/proc/{getattr(server, 'process_id', None)}/stat")
    if not stat.exists():
        return math.nan
    time.sleep(0.5)  # a session outlives its connection for a moment
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def _row(n: int, distinct: int, options: dict[str, Any], result: dict[str, Any]) -> list[object]:
    phases = [result["seconds"][phase] for phase in ("read", "cluster", "write", "verify", "total")]
    cells = n * 8
    return [
        f"{n:,}",
        f"{distinct:,}",
        f"{options['block_size']:,}" if "block_size" in options else "",
        options.get("refine", ""),
        *phases,
        result["cpu"],
        result["server"],
        f"{result['memory']:.0f}",
        *(f"{result[kind] * cells:,.0f}" for kind in ("own", "released")),
    ]
