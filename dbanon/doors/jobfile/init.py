"""A job file to begin with: the columns of a table, each with a role that is proposed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from dbanon.advice.answer import describe_entity
from dbanon.advice.nulls import NullChoice
from dbanon.advice.persons import person_column
from dbanon.advice.request import (
    OF_CATEGORIES,
    OF_NUMBERS,
    SECONDS,
    AdviceRequest,
    default_methods,
)
from dbanon.advice.roles import IDENTIFIER, QUASI_IDENTIFIER, REASONS, SENSITIVE, RoleProposal
from dbanon.data.memory import half_of_memory
from dbanon.data.schema import Attribute, with_kinds
from dbanon.doors.jobfile.chain import ChainProposal, escape, shell_url
from dbanon.doors.jobfile.field_types import is_name, written_password
from dbanon.doors.spelling import PROPOSED_TARGET
from dbanon.errors import NoRows
from dbanon.job.policy import Policy
from dbanon.job.reading import USUAL, Reading
from dbanon.methods.forecast import Shape
from dbanon.partitioning.forecast import fastest_method, forecast
from dbanon.run.advise import no_quasi_identifiers, propose_kinds, propose_nulls, propose_roles
from dbanon.run.open import open_store, supports_view_releases
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session
from dbanon.stores.folders import is_of_files
from dbanon.stores.sql_source import SqlSource

if TYPE_CHECKING:
    from dbanon.data.schema import Attribute
    from dbanon.sessions.base import OnSql


# Roles that advice proposes, as in job files. Other columns are dropped until someone decides.
_ROLES = (IDENTIFIER, QUASI_IDENTIFIER, SENSITIVE)
_DROP = "drop"
VIEW, TABLE = "view", "table"
# Of the releases that a proposed file makes.
SCHEMA = "release"


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


def proposal(attribute: Attribute, role: RoleProposal | None) -> Proposal:
    """The role of a column; None for one of a table without rows, of which nothing can be said."""
    kind = attribute.sql_type or attribute.kind.value
    if role is None:
        return Proposal(attribute, _DROP, kind)
    also = f" or {role.also}" if role.also else ""
    proposed = role.role if role.role in _ROLES else _DROP
    return Proposal(attribute, proposed, f"{kind}{also}: {REASONS[role.reason]}")


@dataclass(frozen=True)
class RoleDecisions:
    """Decisions that replace proposals.

    Parameters
    ----------
    roles : of columns, as job files have them; of others the proposals stay.
    reasons : of columns of role ``keep``.
    hierarchies : of quasi-identifiers, as job files have them.
    options : of the release: ``method``, ``refine``, ``recoding``, ``nulls``, ``max_suppression``.
        Without a method, that and what becomes of NULLs are proposed.
    name, output : of the job, and of what it makes; both as the table when None.
    kind : ``view`` or ``table``, of what it makes; a table where releases may not be views.
    target : URL of the database that is written to; the source, or the proposal, when None.
    more : further keys of the job, such as ``report`` and ``export``.
    """

    roles: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    hierarchies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    output: str | None = None
    kind: str = VIEW
    target: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def proposal(self, attribute: Attribute, role: RoleProposal | None) -> Proposal:
        """The role of a column: as decided, else as proposed."""
        proposed = proposal(attribute, role)
        decided = self.roles.get(attribute.name, proposed.role)
        kind = attribute.sql_type or attribute.kind.value
        comment = proposed.comment if decided == proposed.role else f"{kind}: decided by you"
        return replace(proposed, role=decided, comment=comment)

    def keys(self, column: Proposal, kinds: Mapping[str, str]) -> str:
        """The role of a column in the file, with what belongs to it.

        Parameters
        ----------
        kinds : of columns that look like codes.
        """
        name = column.attribute.name
        keys: dict[str, Any] = {}
        if column.role == "keep":
            keys["reason"] = self.reasons.get(name, "")
        if column.role == QUASI_IDENTIFIER and name in self.hierarchies:
            keys["hierarchy"] = self.hierarchies[name]
        elif column.role == QUASI_IDENTIFIER and name in kinds:
            keys["kind"] = kinds[name]
        more = (f", {key}: {_in_yaml(value)}" for key, value in keys.items())
        return f"{{role: {column.role}{''.join(more)}}}"


_PROPOSED = RoleDecisions()

_INIT = """\
# dbanon init made this from the columns of {table}. Roles are proposals: decide on each, then:
#   dbanon check FILE    dbanon plan FILE    dbanon run FILE
"""
_DECIDED = """\
# dbanon workbench made this from your decisions on {table}. To run it:
#   dbanon run FILE
"""
_HEAD = """\
{made}#
# role: identifier         identifies a person; never released
#       quasi_identifier   could re-identify a person together with others: generalized or averaged
#       sensitive          released as it is, and counted as sensitive
#       keep               released as it is; needs a reason: "…"
#       by                 groups that are anonymized separately; released as it is
#       drop               not released
version: 1
source:
  url: {url}
target:
{place}  schema: {schema}
defaults:
  k: {k}
{method}  on_new_column: halt
jobs:
  - name: {name}
    table: {relation}
{key}{reading}    columns:
"""
_METHOD = f"""\
  # {OF_NUMBERS[0]}, or {OF_CATEGORIES[0]} if not all quasi-identifiers are numbers or dates
{{}}  method: {{}}
"""
_TARGET = """\
  # Releases of a file go to a separate database, which the first release creates
  url: {}
"""
_TAIL = """\
    output:
      {kind}: {output}
"""
# By how much counts may differ from those of the last release: months do, truncated files by more.
_CHANGE = "30 %"
_EXPECTED = (
    "A source that differs by more than this from the last release of this job, such as a truncated"
    " file, is refused. share_null limits NULLs (docs/jobs.md#expectations)"
)
# Longer keys of YAML stand behind a question mark.
_LONGEST_KEY = 1000
_KEEP_LAST = "      keep_last: 2\n"


def job_file_for(
    url: str,
    table: str,
    *,
    k: int = 5,
    key: Sequence[str] = (),
    on_sql: OnSql | None = None,
    reading: Reading = USUAL,
    decided: RoleDecisions = _PROPOSED,
    nulls: str | None = None,
) -> str:
    """The text of a job file for a table.

    Parameters
    ----------
    url : of its database. One with a password is not written: a variable stands for it.
    key : columns that tell every row from every other, for views.
    reading : how a CSV file is written.
    decided : decisions that replace proposals.
    nulls : what becomes of NULLs in quasi-identifiers; None for what loses least.

    Raises
    ------
    TableNotFound : there is none.
    NoQuasiIdentifiers, TooFewRecords : a run of the file would be refused.
    DbanonError : the database cannot be read.
    """
    request = AdviceRequest(
        table=table, key=tuple(key), k=(k,), nulls=nulls, memory_limit=half_of_memory()
    )
    description = _seen(url, request, on_sql, reading, decided)
    proposals = tuple(
        decided.proposal(attribute, description.roles.get(attribute.name))
        for attribute in description.attributes
    )
    named = parse_relation(table).name
    name = decided.name or re.sub(r"[^\w-]+", "-", named).strip("-_")[:63]
    chosen = [column.attribute for column in proposals if column.role == QUASI_IDENTIFIER]
    chosen = list(with_kinds(chosen, description.kinds))
    opening = _INIT if decided is _PROPOSED else _DECIDED
    head = _HEAD.format(
        made=opening.format(table=json.dumps(table)[1:-1]),
        url=_url(url, "DBANON_URL"),
        place=_target_lines(url, decided),
        schema=SCHEMA,
        k=k,
        method=_options(decided, chosen, description.rows, k),
        name=_quoted(name if is_name(name) else "job"),
        relation=_quoted(table),
        reading=_written(description.reading),
        key=(f"    key: [{', '.join(map(_quoted, key))}]\n" if key else "")
        + description.of_rows(decided.options)
        + description.chain.lines(
            _url_of_chain(url, decided),
            table,
            _comment,
            _quoted,
            commented=decided is not _PROPOSED,
            file_url=url if is_of_files(url) else None,
        )
        + description.expect(decided is _PROPOSED),
    )
    keys = [_quoted(column.attribute.name) for column in proposals]
    width = max((len(key) for key in keys if len(key) <= _LONGEST_KEY), default=0)
    lines = [
        (f"{key}:".ljust(width + 1) if len(key) <= _LONGEST_KEY else f"? {key}\n      :")
        + f" {decided.keys(column, description.kinds)}  # {json.dumps(column.comment)[1:-1]}\n"
        for key, column in zip(keys, proposals, strict=True)
    ]
    output = _quoted(str(RelationName(None, decided.output or description.output or named)))
    more = "".join(f"    {name}: {_in_yaml(value)}\n" for name, value in decided.more.items())
    kind = decided.kind if supports_view_releases(decided.target or url) else TABLE
    # A table has no earlier releases beside it.
    tail = _TAIL.format(kind=kind, output=output) + (_KEEP_LAST if kind == VIEW else "")
    return head + "".join(f"      {line}" for line in lines) + tail + more


def _url(url: str, variable: str) -> str:
    """A URL as the file has it; a variable stands for one with a password."""
    written = url.replace("$", "$$")
    if written_password(written):
        written = f"${{{variable}?set {variable}}}"
    return _quoted(written)


def _target_lines(url: str, decided: RoleDecisions) -> str:
    """Where releases go, when it is not where the table is."""
    if decided.target is not None and not is_of_files(url):
        return f"  url: {_url(decided.target, 'DBANON_TARGET')}\n"
    if not is_of_files(url):
        return ""
    return _TARGET.format(_url(decided.target or PROPOSED_TARGET, "DBANON_TARGET"))


def _url_of_chain(url: str, decided: RoleDecisions) -> str:
    """The database that keeps a chain, as a shell has it: of a file, where its releases go."""
    chain_url = (decided.target or PROPOSED_TARGET) if is_of_files(url) else url
    return shell_url(chain_url, written_password(chain_url.replace("$", "$$")))


@dataclass(frozen=True)
class _Seen:
    """A description of a table.

    Parameters
    ----------
    entity : the column that identifies persons; None if each row is a person.
    nulls : what becomes of NULLs in quasi-identifiers; None where there are none.
    rows : of the table.
    kinds : of quasi-identifiers that look like codes.
    chain : what a chain of its releases depends on.
    reading : how a file is read: as was said, with a type of each column.
    output : the name to propose for the releases; None for that of the table.
    """

    attributes: tuple[Attribute, ...]
    roles: Mapping[str, RoleProposal] = field(default_factory=dict)
    entity: str | None = None
    nulls: NullChoice | None = None
    rows: int = 0
    kinds: Mapping[str, str] = field(default_factory=dict)
    chain: ChainProposal = field(default_factory=ChainProposal)
    reading: Reading = USUAL
    output: str | None = None

    def of_rows(self, decided: Mapping[str, Any]) -> str:
        """What the job says of its rows beside their key: whose they are, and of NULLs.

        Parameters
        ----------
        decided : options of the release; where there are any, they say what becomes of NULLs.
        """
        lines = ""
        if self.entity:
            lines = _comment(describe_entity(self.entity)) + f"    entity: {_quoted(self.entity)}\n"
        if self.nulls is not None and not decided:
            budget = self.nulls.max_suppression
            comment = f"NULLs in quasi-identifiers: {self.nulls}"
            if budget:
                comment += f". With it up to {budget:.0%} of the rows are suppressed"
            lines += _comment(comment) + f"    nulls: {self.nulls.nulls}\n"
            lines += f"    max_suppression: {budget}\n" if budget else ""
        return lines

    def expect(self, makes_chain: bool) -> str:
        """The counts that the job expects, with comments.

        Parameters
        ----------
        makes_chain : whether the chain that is proposed is part of the job.
        """
        has_entity = bool(self.entity) or (makes_chain and self.chain.is_made)
        persons = f", persons: {_CHANGE}" if has_entity else ""
        return _comment(_EXPECTED) + f"    expect: {{rows: {_CHANGE}{persons}}}\n"


def _seen(
    url: str,
    request: AdviceRequest,
    on_sql: OnSql | None,
    reading: Reading,
    decided: RoleDecisions,
) -> _Seen:
    """Describe a table; only by its columns if it has no rows."""
    store = open_store(url, on_sql, reading=reading, table=request.table)
    with store.planning(staging=True) as session:
        source = SqlSource(session)
        relation = session.find_source(parse_relation(request.table))
        attributes = relation.schema.attributes
        try:
            proposed = propose_roles(request, source)
        except NoRows:
            return _Seen(attributes, reading=reading)
        proposals = [
            decided.proposal(attribute, proposed.roles[attribute.name]) for attribute in attributes
        ]
        chosen = tuple(
            column.attribute.name for column in proposals if column.role == QUASI_IDENTIFIER
        )
        if not chosen and decided is _PROPOSED:
            raise no_quasi_identifiers(request.table)
        identifiers = [column.attribute.name for column in proposals if column.role == IDENTIFIER]
        entity = proposed.entity if proposed.entity in identifiers else None
        rows = proposed.profile.rows
        person = person_column(proposed.profile.columns, identifiers, rows)
        is_kept = "chains" not in session.unsupported_features
        if is_of_files(url):
            # It takes views where it is none of MariaDB's.
            is_kept = supports_view_releases(decided.target or PROPOSED_TARGET)
        chain = ChainProposal(person, entity, is_kept)
        nulls = None
        if chosen and not decided.options:
            request = replace(request, quasi_identifiers=chosen)
            merges = decided is not _PROPOSED or not chain.is_made
            nulls = propose_nulls(request, proposed.profile, entity, source, merges=merges)
        columns = session.as_written(relation)
        reading = reading.with_types(
            {column.name: column.kind for column in columns if column.kind},
            [column.decided for column in columns if column.decided is not None],
        )
        kinds = propose_kinds(request, chosen, proposed.profile)
        output = None
        if supports_view_releases(url) and decided.target is None:
            output = free_output_name(session, relation.name)
        return _Seen(attributes, proposed.roles, entity, nulls, rows, kinds, chain, reading, output)


def free_output_name(session: Session, table: RelationName) -> str | None:
    """A free name for a view of releases, if a table of the release schema has the source's name.

    None if the source's name can be used: it is free, or belongs to a view of earlier releases.
    """
    candidates = (table.name, *(f"{table.name}_{n}" for n in ("released", *range(2, 100))))
    for name in candidates:
        existing = session.find_existing(session.resolve_output(RelationName(SCHEMA, name)))
        if existing is None or existing.kind == VIEW:
            return None if name == table.name else name
    return None


def _options(decided: RoleDecisions, chosen: Sequence[Attribute], rows: int, k: int) -> str:
    """The options of the release, as decided, or the method to begin with."""
    if decided.options:
        return "".join(f"  {name}: {_in_yaml(value)}\n" for name, value in decided.options.items())
    return _method(chosen, rows, k) if chosen else ""


def _method(chosen: Sequence[Attribute], rows: int, k: int) -> str:
    """The method to begin with, and about what it takes: a usual one unless it would take long."""
    shape = Shape.of(chosen)
    method = fastest_method(default_methods(not shape.is_mixed)[:1], rows, shape, SECONDS)
    duration = forecast(Policy(k=k, method=method), rows, shape) if rows else None
    comment = ""
    if duration:
        comment = f"  # Of {rows:,} rows it takes {duration} to find the classes, by forecast\n"
    return _METHOD.format(comment, method)


def _comment(text: str) -> str:
    """Text as comments of a job."""
    lines = wrap(f"{text}.", 94, break_on_hyphens=False)
    return "".join(f"    # {escape(line)}\n" for line in lines)


def _written(reading: Reading) -> str:
    """How a CSV file is written, as keys of a job."""
    lines = []
    for name, value in reading.to_dict().items():
        if isinstance(value, Mapping):
            lines.append(f"    {name}:\n")
            lines += [f"      {_quoted(key)}: {_quoted(text)}\n" for key, text in value.items()]
        else:
            lines.append(f"    {name}: {_in_yaml(value)}\n")
    return "".join(lines)


def _in_yaml(value: Any) -> str:
    """A value as YAML has it in a line: lists and mappings in brackets."""
    if isinstance(value, Mapping):
        items = (f"{_quoted(key)}: {_in_yaml(item)}" for key, item in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_in_yaml, value))}]"
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    """Text as YAML has it: with quotes where it needs them."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", text) and text.lower() not in (
        "y",
        "n",
        "yes",
        "no",
        "on",
        "off",
        "true",
        "false",
        "null",
    ):
        return text
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escape(quoted)}"'
