"""The tutorial: the demonstration as a guided tour, each step explained, run for real, and waited for."""

from __future__ import annotations

import shlex
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import click
import duckdb

from dbanon.doors.cli.demo import make_persons
from dbanon.doors.cli.groups import OnDatabase
from dbanon.doors.cli.render import rows_table, tell
from dbanon.doors.cli.support import errors, signals
from dbanon.doors.cli.tutorial_steps import NEXT, Command, Query, steps
from dbanon.errors import DbanonError, InsufficientRights, OutputExists

ROWS = 5_000
DATABASE = "persons.duckdb"
# What the tutorial makes in its folder, and alone removes.
MADE = (DATABASE, f"{DATABASE}.wal", "report.html")


class StepFailed(DbanonError):
    """A step of the tutorial did not end as it should."""

    code = "unexpected"
