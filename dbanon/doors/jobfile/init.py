"""A job file to begin with: the columns of a table, each with a role that is proposed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import wrap
from typing import TYPE_CHECKING

from dbanon.advice.answer import entity_told
from dbanon.advice.request import (
    OF_CATEGORIES,
    OF_NUMBERS,
    SECONDS,
    AdviceRequest,
    are_numbers,
    usual_methods,
)
from dbanon.advice.roles import IDENTIFIER, QUASI_IDENTIFIER, REASONS, SENSITIVE, Role
from dbanon.data.schema import Attribute
from dbanon.doors.jobfile.field_types import is_name, written_password
from dbanon.doors.spelling import PLACE
from dbanon.errors import NoRows
from dbanon.job.policy import Policy
from dbanon.job.reading import USUAL, Reading
from dbanon.partitioning.forecast import forecast, quickest
from dbanon.run.advise import proposed
from dbanon.run.open import open_store
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.stores.folders import is_of_files
from dbanon.stores.sql_source import SqlSource

if TYPE_CHECKING:
    from dbanon.data.schema import Attribute
    from dbanon.sessions.base import OnSql


# What advice proposes, as job files have it; all else is not released until somebody says so.
_ROLES = (IDENTIFIER, QUASI_IDENTIFIER, SENSITIVE)
_DROP = "drop"


@dataclass(frozen=True)
class Proposal:
    """A role for a column.

    Parameters
    ----------
    role : as job files have it.
    comment : what there is to know before it is changed.
    """

    attribute: Attribute
    role: str
    comment: str


def proposal(attribute: Attribute, role: Role | None) -> Proposal:
    """The role of a column; None for one of a table without rows, of which nothing can be said."""
    kind = attribute.sql_type or attribute.kind.value
    if role is None:
        return Proposal(attribute, _DROP, kind)
    also = f" or {role.also}" if role.also else ""
    proposed = role.role if role.role in _ROLES else _DROP
    return Proposal(attribute, proposed, f"{kind}{also}: {REASONS[role.reason]}")


_HEAD = """\
# dbanon init made this of the columns of {table}. Roles are proposals: decide on each, then:
#   dbanon check FILE    dbanon plan FILE    dbanon run FILE
#
# role: identifier         says whose a row is; never released
#       quasi_identifier   with others it could re-identify a person: released as its class's value
#       sensitive          released as it is, and counted as sensitive
#       keep               released as it is; needs a reason: "…"
#       by                 makes strata, which no class crosses; released as it is
#       drop               not released
version: 1
source:
  url: {url}
target:
{place}  schema: release
defaults:
  k: {k}
{method}  on_new_column: halt
jobs:
  - name: {name}
    table: {relation}
{key}{reading}    columns:
"""
_METHOD = f"""\
  # {OF_NUMBERS[0]}, or where not all quasi-identifiers are numbers or dates {OF_CATEGORIES[0]}
{{}}  method: {{}}
"""
_PLACE = f"""\
  # A file is not written into: a database of its own, which the first release makes
  url: {PLACE}
"""
_TAIL = """\
    output:
      view: {output}
      keep_last: 2
"""


def job_file_for(
    url: str,
    table: str,
    *,
    k: int = 5,
    key: Sequence[str] = (),
    on_sql: OnSql | None = None,
    reading: Reading = USUAL,
) -> str:
    """The text of a job file for a table.

    Parameters
    ----------
    url : of its database. One with a password is not written: a variable stands for it.
    key : columns that tell every row from every other, for views.
    reading : how a CSV file is written.

    Raises
    ------
    TableNotFound : there is none.
    DbanonError : the database cannot be read.
    """
    found = _seen(url, table, key, on_sql, reading)
    proposals = tuple(proposal(one, found.roles.get(one.name)) for one in found.attributes)
    named = parse_relation(table).name
    name = re.sub(r"[^\w-]+", "-", named).strip("-_")[:63]
    written = url.replace("$", "$$")
    if written_password(written):
        written = "${DBANON_URL?set DBANON_URL}"
    chosen = [one.attribute for one in proposals if one.role == QUASI_IDENTIFIER]
    head = _HEAD.format(
        table=json.dumps(table)[1:-1],
        url=_quoted(written),
        place=_PLACE if is_of_files(url) else "",
        k=k,
        method=_method(chosen, found.rows, k) if chosen else "",
        name=_quoted(name if is_name(name) else "job"),
        relation=_quoted(table),
        reading=_written(reading),
        key=(f"    key: [{', '.join(map(_quoted, key))}]\n" if key else "") + found.of_rows(),
    )
    width = max(len(_quoted(one.attribute.name)) for one in proposals)
    lines = [
        f"      {_quoted(one.attribute.name)}:".ljust(width + 7)
        + f" {{role: {one.role}}}  # {json.dumps(one.comment)[1:-1]}\n"
        for one in proposals
    ]
    return head + "".join(lines) + _TAIL.format(output=_quoted(str(RelationName(None, named))))


@dataclass(frozen=True)
class _Seen:
    """What was seen of a table.

    Parameters
    ----------
    entity : the column that says whose a row is; None where a row is a person.
    withheld : the share of rows with a NULL in a quasi-identifier, in hundredths, rounded up.
    rows : of the table.
    """

    attributes: tuple[Attribute, ...]
    roles: Mapping[str, Role] = field(default_factory=dict)
    entity: str | None = None
    withheld: float = 0.0
    rows: int = 0

    def of_rows(self) -> str:
        """What the job says of its rows beside their key: whose they are, and of NULLs."""
        found = ""
        if self.entity:
            found = _comment(entity_told(self.entity)) + f"    entity: {_quoted(self.entity)}\n"
        if self.withheld:
            told = (
                f"Up to {self.withheld:.0%} of the rows have a NULL in a quasi-identifier, and are"
                " withheld. With nulls: category they are released, NULL a value of its own"
            )
            found += _comment(told) + f"    nulls: suppress\n    max_suppression: {self.withheld}\n"
        return found


def _seen(
    url: str, table: str, key: Sequence[str], on_sql: OnSql | None, reading: Reading
) -> _Seen:
    """What is seen of a table; of one without rows its columns alone."""
    wishes = AdviceRequest(table=table, key=tuple(key))
    store = open_store(url, on_sql, reading=reading, table=table)
    with store.planning(staging=True) as session:
        source = SqlSource(session)
        relation = session.find_source(parse_relation(table))
        attributes = relation.schema.attributes
        try:
            found = proposed(wishes, source)
        except NoRows:
            return _Seen(attributes)
        chosen = tuple(a.name for a in attributes if found.roles[a.name].role == QUASI_IDENTIFIER)
        withheld = source.count_withheld(replace(relation, required=chosen))
        share = math.ceil(100 * withheld / found.profile.rows) / 100
        return _Seen(attributes, found.roles, found.entity, share, found.profile.rows)


def _method(chosen: Sequence[Attribute], rows: int, k: int) -> str:
    """The method to begin with, and about what it takes: a usual one unless it would take long."""
    numbers = sum(are_numbers([one]) for one in chosen)
    others = len(chosen) - numbers
    method = quickest(usual_methods(not others)[:1], rows, numbers, others, SECONDS)
    found = forecast(Policy(k=k, method=method), rows, numbers, others) if rows else None
    told = (
        f"  # Of {rows:,} rows it takes {found} to find the classes, by forecast\n" if found else ""
    )
    return _METHOD.format(told, method)


def _comment(text: str) -> str:
    """Text as comments of a job."""
    return "".join(f"    # {line}\n" for line in wrap(f"{text}.", 94, break_on_hyphens=False))


def _written(reading: Reading) -> str:
    """How a CSV file is written, as keys of a job."""
    return "".join(
        f"    {name}: [{', '.join(map(_quoted, value))}]\n"
        if isinstance(value, list)
        else f"    {name}: {_quoted(value)}\n"
        for name, value in reading.to_dict().items()
    )


def _quoted(text: str) -> str:
    """Text as YAML has it: with quotes where it needs them."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", text) and text.lower() not in (
        "y", "n", "yes", "no", "on", "off", "true", "false", "null",
    ):  # fmt: skip
        return text
    return json.dumps(text, ensure_ascii=False)
