"""Run MST, AIM and PrivBayes of dpmm in separate processes, with an interpreter that has it.

Their pipelines have default settings, the public domain of each column and one process. Results are
cached next to this file, because AIM takes ten minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.synthesis_tables import Table
from tests.reference.data import data_directory

CACHE = Path(__file__).resolve().parent / ".rows"
DELTA = 1e-9
# Limit on the CPU seconds of one call.
MAX_SECONDS = 900
PEERS = {"MST": "MSTPipeline", "PrivBayes": "PrivBayesPipeline", "AIM": "AIMPipeline"}
CALL = """
import json, resource, sys, time, warnings
warnings.simplefilter("ignore")
folder, name, epsilon, delta, most = sys.argv[1:6]
resource.setrlimit(resource.RLIMIT_CPU, (int(most), int(most)))
import pandas as pd
from dpmm import pipelines
domain = json.load(open(folder + "/domain.json"))
rows = pd.read_csv(folder + "/rows.csv")
for column in rows:
    if "categories" in domain[column]:
        rows[column] = rows[column].astype("category")
started = time.process_time()
options = {} if name == "PrivBayesPipeline" else {"delta": float(delta)}
made = getattr(pipelines, name)(epsilon=float(epsilon), n_jobs=1, **options)
made.fit(rows, domain=domain, random_state=0)
found = made.generate(n_records=len(rows), random_state=0)[list(rows)]
seconds = time.process_time() - started
found.to_csv(folder + "/made.csv", index=False)
print("\\n" + json.dumps(seconds))
"""


def synthesize(
    peer: str, data: Table, epsilon: float, other_python: str | None
) -> tuple[pd.DataFrame, float]:
    """Return rows, and CPU seconds.

    Raises
    ------
    TimeoutError : it exceeded the limit, or nothing is cached and no interpreter is given.
    """
    folder = CACHE / f"{data.name}-{peer}-{epsilon:g}"
    result_file = folder / "seconds.json"
    if not result_file.exists():
        if other_python is None:
            raise TimeoutError("not measured")
        folder.mkdir(parents=True, exist_ok=True)
        _logarithms_of(data, data.rows, np.log10).to_csv(folder / "rows.csv", index=False)
        (folder / "domain.json").write_text(json.dumps(data.domain()))
        arguments = (str(folder), PEERS[peer], str(epsilon), str(DELTA), str(MAX_SECONDS))
        process = subprocess.run(
            [other_python, "-c", CALL, *arguments], capture_output=True, text=True, check=False
        )
        (folder / "err.txt").write_text(process.stderr)
        if process.returncode < 0:
            result_file.write_text(json.dumps(None))
        elif process.returncode:
            raise TimeoutError(f"failed: {process.stderr[-300:]}")
        else:
            result_file.write_text(process.stdout.splitlines()[-1])
    seconds = json.loads(result_file.read_text())
    if seconds is None:
        raise TimeoutError(f"stopped after {MAX_SECONDS} s")
    rows = pd.read_csv(folder / "made.csv")
    return _logarithms_of(data, rows, lambda values: 10.0**values), float(seconds)


def _logarithms_of(data: Table, rows: pd.DataFrame, convert: Callable[[Any], Any]) -> pd.DataFrame:
    """Return rows with converted columns where the scale is logarithmic."""
    return rows.assign(**{c: convert(rows[c]) for c in data.logarithms})


def main(other_python: str, runs: list[str]) -> None:
    """Generate and cache the rows of peers, as ``Adult-MST-1``."""
    from benchmarks.synthesis_seven import seven_tables

    directory = data_directory()
    assert directory is not None
    data_by_name = {table.name: table for table in seven_tables(directory)}
    for run in runs:
        name, peer, epsilon = run.split("-")
        try:
            seconds = synthesize(peer, data_by_name[name], float(epsilon), other_python)[1]
            print(run, seconds, flush=True)
        except TimeoutError as error:
            print(run, error, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
