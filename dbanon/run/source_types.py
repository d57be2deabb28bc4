"""Check that a source's columns still have the types they had at the job's last release."""

from __future__ import annotations

from collections.abc import Mapping

from dbanon.data.words import json_text
from dbanon.errors import TableChanged
from dbanon.job.job import Job
from dbanon.job.private import PrivateJob
from dbanon.sessions.base import Relation
from dbanon.sessions.types import type_family


def require_types(job: Job | PrivateJob, relation: Relation, last_types: Mapping[str, str]) -> None:
    """Check that the columns that are read have the types of the job's last release.

    Widths may differ: ``smallint`` and ``bigint`` count as the same type. Columns that the job does
    not read are skipped, except with ``where``, which may refer to any column.

    Parameters
    ----------
    job : the job; nothing is checked if its ``roles``, all columns with a role, is None.
    last_types : SQL type by column name, as recorded by the last release.

    Raises
    ------
    TableChanged : a column has a type of another family.
    """
    if job.roles is None:
        return
    may_read_any_column = isinstance(job, Job) and job.where is not None
    compared_columns = {*(job.roles if may_read_any_column else job.columns_to_read)} - {
        *job.accept_types
    }
    # A column without a recorded type counts as unchanged.
    changed_columns = [
        a
        for a in relation.schema.attributes
        if a.name in job.roles
        and a.name in compared_columns
        and type_family(last_types.get(a.name, a.sql_type)) != type_family(a.sql_type)
    ]
    if changed_columns:
        names = json_text([a.name for a in changed_columns])
        # Columns of SQLite may be declared without a type.
        raise TableChanged(
            f"Columns of {relation.name} have other types than at the job's last release; nothing"
            " was published.",
            detail="; ".join(
                f'"{a.name}" was {last_types[a.name] or "of no type"}, and is'
                f" {a.sql_type or 'of no type'}"
                for a in changed_columns
            )
            + ".",
            hint="Look at the column's values. If the type is as it should be, accept it with one"
            f" run of the job: `accept_types={names}`.",
        )
