"""MST, AIM and PrivBayes of dpmm, by an interpreter that has it: each call in its own process.

Their pipelines as they come, with the public domain of each column and one process. What they made
is kept beside this file, as AIM takes ten minutes: a later call reads it again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd

from benchmarks.synthesis_tables import Table, tables
from tests.reference.data import data_directory

KEPT = Path(__file__).resolve().parent / ".rows"
DELTA = 1e-9
# CPU seconds that one call may take.
MOST = 900
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


def made(peer: str, of: Table, epsilon: float, beside: str | None) -> tuple[pd.DataFrame, float]:
    """Rows, and CPU seconds.

    Raises
    ------
    TimeoutError : it was ended, or there is nothing and no interpreter is named.
    """
    folder = KEPT / f"{of.name}-{peer}-{epsilon:g}"
    told = folder / "seconds.json"
    if not told.exists():
        if beside is None:
            raise TimeoutError("not measured")
        folder.mkdir(parents=True, exist_ok=True)
        of.rows.to_csv(folder / "rows.csv", index=False)
        (folder / "domain.json").write_text(json.dumps(of.domain()))
        asked = (str(folder), PEERS[peer], str(epsilon), str(DELTA), str(MOST))
        done = subprocess.run(
            [beside, "-c", CALL, *asked], capture_output=True, text=True, check=False
        )
        (folder / "err.txt").write_text(done.stderr)
        if done.returncode < 0:
            told.write_text(json.dumps(None))
        elif done.returncode:
            raise TimeoutError(f"failed: {done.stderr[-300:]}")
        else:
            told.write_text(done.stdout.splitlines()[-1])
    seconds = json.loads(told.read_text())
    if seconds is None:
        raise TimeoutError(f"ended after {MOST} CPU s")
    return pd.read_csv(folder / "made.csv"), float(seconds)


def main(beside: str, wanted: list[str]) -> None:
    """Make the rows of all peers at epsilon = 1, and keep them."""
    directory = data_directory()
    assert directory is not None
    of = {table.name: table for table in tables(directory)}
    for one in wanted:
        name, peer = one.split("-")
        try:
            print(one, made(peer, of[name], 1.0, beside)[1], flush=True)
        except TimeoutError as error:
            print(one, error, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
