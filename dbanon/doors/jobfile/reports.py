"""Removes reports of a job's earlier releases, together with their last table or file."""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import TYPE_CHECKING

from dbanon.errors import TablesLeft, warn_caller
from dbanon.job.job import Job
from dbanon.run.gc import releases_without_data
from dbanon.sessions.names import RelationName
from dbanon.sessions.store import Store

if TYPE_CHECKING:
    from dbanon.doors.jobfile.file import FileJob

_RELEASE = "{release}"
_ID = "(?P<release>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"


def drop_reports(job: FileJob, store: Store, output: RelationName) -> None:
    """Remove reports of releases without data, if the job limits how many releases it keeps.

    Parameters
    ----------
    store : of the ledger. Other files, and reports of releases that it does not list, stay.

    Raises
    ------
    DbanonError : the ledger cannot be read.
    """
    exports = job.job.exports if isinstance(job.job, Job) else ()
    drops = job.keep_last is not None or any(export.keep_last is not None for export in exports)
    if not drops or job.report is None or _RELEASE not in job.report:
        return
    reports = _reports(job.report.replace("{job}", job.name))
    if not reports:
        return
    causes = []
    for release_id in sorted(releases_without_data(store, output, list(reports))):
        try:
            reports[release_id].unlink()
        except OSError as error:
            causes.append(error.strerror or type(error).__name__)
    if causes:
        reasons = ", ".join(dict.fromkeys(causes))
        warn_caller(
            TablesLeft(
                f"{len(causes)} reports of earlier releases could not be removed ({reasons})."
            )
        )


def _reports(template: str) -> dict[str, Path]:
    """Find the files that match a path with ``{release}``, by release id."""
    first, *tail = template.split(_RELEASE)
    pattern = re.escape(first) + _ID + "(?P=release)".join(map(re.escape, tail))
    matches = (
        (re.fullmatch(pattern, path), path)
        for path in glob.glob("*".join(map(glob.escape, (first, *tail))))
    )
    return {match["release"]: Path(path) for match, path in matches if match is not None}
