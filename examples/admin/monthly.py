"""Release again what a job file names, once in each month, however often this is called.

    python -m examples.admin.monthly job.yaml URL

Jobs with an entity belong to a chain, which keeps the months private together. Others warn, unless
they have ``releases: independent``. URL is where the releases go. A schedule may call it each
night: a machine that was off on the first makes up for it on the second. Each release is verified
as its readers see it, and stands beside the one before: a loss that is half as much again is a sign
that the data are others now. (Published losses have a least value, below which changes do not
show.) The exit code is that of the first job that failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import dbanon

# Of a loss, against the release before.
MUCH_MORE = 1.5


def jobs_of(file: Path) -> list[dict[str, Any]]:
    """Name and output of each job; the file is checked, as all that is wrong is told on stderr."""
    done = subprocess.run(
        [Path(sys.executable).with_name("dbanon"), "check", file, "--format", "json"],
        stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(done.returncode)
    found: list[dict[str, Any]] = json.loads(done.stdout)["jobs"]
    return found


def main(words: list[str] | None = None) -> int:
    """Release; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", type=Path)
    parser.add_argument("url")
    given = parser.parse_args(words)
    month = datetime.now(timezone.utc).strftime("%Y-%m")
    codes = [0]
    for job in jobs_of(given.file):
        name, output = job["job"], job["output"]
        before = [one for one in dbanon.releases(given.url) if one.output == output]
        if before and before[0].created_at.startswith(month):
            print(f"{name}: released in {month}: {before[0].release_id}")
            continue
        try:
            report = dbanon.run_job(given.file, job=name)
            dbanon.verify(given.url, output)
        except dbanon.DbanonError as error:
            print(f"{name}: [{error.code}] {error.message}")
            codes.append(error.exit_code)
            continue
        if not isinstance(report, dbanon.Report):
            # Synthetic rows, which have no classes.
            print(f"{name}: verified")
            continue
        print(f"{name}: {report.rows_out} rows, k = {report.k_achieved}, verified")
        lost = before[0].information_loss if before else None
        if lost is not None and report.information_loss > MUCH_MORE * lost:
            print(
                f"{name}: loses {report.information_loss:.4f}, before {lost:.4f}: look at the data"
            )
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
