"""Reports of a job's earlier releases, which go with the last table or file of their release."""

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
    """Remove reports of the job's releases of which nothing is left, where not all are kept.

    Parameters
    ----------
    store : of the ledger. Files of other names, and of releases that it does not know, stay.

    Raises
    ------
    DbanonError : the ledger cannot be read.
    """
    exports = job.job.exports if isinstance(job.job, Job) else ()
    drops = job.keep_last is not None or any(one.keep_last is not None for one in exports)
    if not drops or job.report is None or _RELEASE not in job.report:
        return
    reports = _reports(job.report.replace("{job}", job.name))
    if not reports:
        return
    left = []
    for release_id in sorted(releases_without_data(store, output, list(reports))):
        try:
            reports[release_id].unlink()
        except OSError as error:
            left.append(error.strerror or type(error).__name__)
    if left:
        told = ", ".join(dict.fromkeys(left))
        warn_caller(TablesLeft(f"{len(left)} reports of earlier releases stay ({told})."))


def _reports(template: str) -> dict[str, Path]:
    """The files that a path with ``{release}`` means, by the id of the release."""
    first, *rest = template.split(_RELEASE)
    pattern = re.escape(first) + _ID + "(?P=release)".join(map(re.escape, rest))
    found = (
        (re.fullmatch(pattern, path), path)
        for path in glob.glob("*".join(map(glob.escape, (first, *rest))))
    )
    return {match["release"]: Path(path) for match, path in found if match is not None}
