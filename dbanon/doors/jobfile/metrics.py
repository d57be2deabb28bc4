"""What monitoring reads of jobs: a file as the textfile collector of Prometheus wants it.

The file is read before it is written: what is known of the last success stays when a run fails, and
jobs of the file that were not run keep all. Nothing in it is a value, or a count below k.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dbanon.doors.jobfile.outcome import Outcome
from dbanon.errors import JobRunning, NotTold, warn_caller
from dbanon.release.private_report import PrivateReport

if TYPE_CHECKING:
    from dbanon.release.report import Report

_PREFIX = "dbanon_job_"
# Name and help of each, in the order in which they stand in the file.
METRICS = {
    "last_success_timestamp_seconds": "When the job last ended well: done, or nothing to do.",
    "last_begin_timestamp_seconds": "When the job last began: with its lock, before it reads.",
    "last_end_timestamp_seconds": "When the job last ended, however it did; before its begin"
    " while it runs, and where it was killed.",
    "last_exit_code": "Exit code of the job's last run: 0 done, 99 nothing to do.",
    "duration_seconds": "Seconds of the last release, by phase.",
    "rows": "Rows of the last release.",
    "k_counted": "The smallest class that was counted in the last release.",
    "information_loss": "Information loss of the last release, 0 to 1.",
    "suppressed_ratio": "Share of the rows that the last release withholds; of fewer than k, of k.",
}
_BEGIN = "last_begin_timestamp_seconds"
_SAMPLE = re.compile(
    _PREFIX + r'(\w+)\{job="([\w-]+)"(?:,phase="([a-z_]+)")?\} (-?[0-9][0-9.e+-]*)'
)

# By metric, job and phase; without a phase the last is empty.
Key = tuple[str, str, str]


def write_metrics(
    path: Path, jobs: Collection[str], outcomes: Sequence[Outcome], begun: str | None = None
) -> None:
    """Write what came of jobs beside what is known of the others; a failure warns, ``NotTold``.

    Of a job that another process runs nothing is written: that process does.

    Parameters
    ----------
    jobs : all of the job file: of others nothing stays.
    begun : a job that begins now.
    """
    try:
        with _alone(path.parent):
            known = {key: value for key, value in _read(path).items() if key[1] in jobs}
            if begun is not None:
                known[_BEGIN, begun, ""] = f"{time.time():.3f}"
            for outcome in outcomes:
                if outcome.code != JobRunning.code:
                    known = _with(known, outcome)
            _replace(path, _text(known))
    except OSError as error:
        why = error.strerror or type(error).__name__
        warn_caller(NotTold(f"The metrics {path} could not be written ({why})."))


def _with(known: dict[Key, str], outcome: Outcome) -> dict[Key, str]:
    job, report = outcome.job, outcome.report
    found = dict(known)
    begin = {key: value for key, value in known.items() if key[:2] == (_BEGIN, job)}
    if isinstance(report, PrivateReport):
        found = {key: value for key, value in found.items() if key[1] != job}
        found["rows", job, ""] = str(report.rows_out)
    elif report is not None:
        # A phase that there was not this time is no longer one.
        found = {key: value for key, value in found.items() if key[1] != job}
        found |= {("duration_seconds", job, p): f"{s:.6f}" for p, s in report.seconds.items()}
        found |= {
            ("rows", job, ""): str(report.rows_out),
            ("k_counted", job, ""): str(report.k_achieved),
            ("information_loss", job, ""): f"{report.information_loss:.9g}",
            ("suppressed_ratio", job, ""): f"{_suppressed(report):.9g}",
        }
    found |= begin
    found["last_end_timestamp_seconds", job, ""] = f"{outcome.ended_at:.3f}"
    if outcome.code is None:
        found["last_success_timestamp_seconds", job, ""] = f"{outcome.ended_at:.3f}"
    found["last_exit_code", job, ""] = str(outcome.exit_code)
    return found


def _suppressed(report: Report) -> float:
    """The share of rows that are withheld, of which fewer than k are told as k.

    Then it must not tell the rows of the source either: with the released ones it would tell all.
    """
    if 0 < report.suppressed < report.k_requested:
        return report.k_requested / (report.rows_out + report.k_requested)
    return report.suppressed / report.rows_in if report.rows_in else 0.0


def _text(known: dict[Key, str]) -> str:
    lines = []
    for name, told in METRICS.items():
        lines += [f"# HELP {_PREFIX}{name} {told}", f"# TYPE {_PREFIX}{name} gauge"]
        for (metric, job, phase), value in known.items():
            if metric == name:
                labels = f'job="{_escaped(job)}"' + (f',phase="{_escaped(phase)}"' if phase else "")
                lines.append(f"{_PREFIX}{name}{{{labels}}} {value}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _read(path: Path) -> dict[Key, str]:
    """What an earlier run wrote; what else stands there, or cannot be read, is passed over."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    found = (_SAMPLE.fullmatch(line.strip()) for line in text.splitlines())
    samples = {(one[1], one[2], one[3] or ""): one[4] for one in found if one}
    return {
        key: value
        for key, value in samples.items()
        if key[0] in METRICS and (key[0] == "duration_seconds") == bool(key[2]) and _is_one(value)
    }


def _is_one(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """A directory for the block: runs of other jobs of the file write after each other."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _replace(path: Path, text: str) -> None:
    """Give a file these contents at once, so that nobody reads half of them."""
    # Not .prom, which the collector reads. What reads it is another account, so all may.
    beside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    opened = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        with os.fdopen(opened, "w", encoding="utf-8") as file:
            file.write(text)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
