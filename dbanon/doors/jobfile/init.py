"""Writes a first job file for a table, with a proposed role for each column."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import wrap
from typing import TYPE_CHECKING

from dbanon.advice.answer import describe_entity
from dbanon.advice.nulls import NullChoice
from dbanon.advice.persons import person_column
from dbanon.advice.request import (
    CATEGORY_METHODS,
    DEFAULT_MAX_SECONDS,
    NUMBER_METHODS,
    AdviceRequest,
    default_methods,
)
from dbanon.advice.roles import (
    IDENTIFIER,
    QUASI_IDENTIFIER,
    REASONS,
    SENSITIVE,
    RoleProposal,
    describe_copied_weight,
    find_design_weight,
)
from dbanon.data.memory import half_of_memory
from dbanon.data.schema import Attribute, apply_kinds
from dbanon.data.types import JsonMapping
from dbanon.doors.jobfile.chain_proposal import (
    ChainProposal,
    escape_unprintable,
    quote_url_for_shell,
)
from dbanon.doors.jobfile.field_types import has_written_password, is_job_name
from dbanon.doors.spelling import PROPOSED_TARGET
from dbanon.errors import NoRows
from dbanon.job.coding import NO_CODING, Coding
from dbanon.job.policy import Policy
from dbanon.job.reading import DEFAULT_READING, Reading
from dbanon.job.rules import WEIGHT
from dbanon.methods.forecast import Shape
from dbanon.partitioning.forecast import fastest_method, forecast
from dbanon.run.advise import (
    no_quasi_identifiers_error,
    propose_kinds,
    propose_nulls,
    propose_roles,
)
from dbanon.run.open import open_store, supports_chains, supports_view_releases
from dbanon.run.profiles import propose_coding
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session
from dbanon.stores.schemes import is_row_file_url
from dbanon.stores.sql_source import SqlSource

if TYPE_CHECKING:
    from dbanon.sessions.base import OnSql


# Roles that dbanon proposes and that are also roles in a job file. Columns with other proposed
# roles are dropped until someone decides.
_PROPOSED_ROLES = (IDENTIFIER, QUASI_IDENTIFIER, SENSITIVE)
_DROP_ROLE = "drop"
# The kinds of output.
VIEW, TABLE = "view", "table"
# The schema of the releases in a proposed file.
SCHEMA = "release"


@dataclass(frozen=True)
class ColumnProposal:
    """A proposed or decided role for a column.

    Parameters
    ----------
    role : a role of job files.
    comment : the column's type, and the reason for the role; written at the end of its line.
    """

    attribute: Attribute
    role: str
    comment: str


def propose_column(attribute: Attribute, role_proposal: RoleProposal | None) -> ColumnProposal:
    """Propose a column's role for a job file.

    Parameters
    ----------
    role_proposal : the proposal from the column's values; None if the table has no rows.
    """
    type_name = attribute.sql_type or attribute.kind.value
    if role_proposal is None:
        return ColumnProposal(attribute, _DROP_ROLE, comment=type_name)
    alternative = f" or {role_proposal.alternative}" if role_proposal.alternative else ""
    role = role_proposal.role if role_proposal.role in _PROPOSED_ROLES else _DROP_ROLE
    comment = f"{type_name}{alternative}: {REASONS[role_proposal.reason]}"
    return ColumnProposal(attribute, role, comment)


@dataclass(frozen=True)
class UserDecisions:
    """A user's decisions about a job file, which override proposals.

    Parameters
    ----------
    roles : from column name to a role of job files; other columns keep the proposed role.
    reasons : from the name of a column of role ``keep`` to the reason for keeping it.
    hierarchies : from quasi-identifier to its hierarchy, in the form of job files.
    options : ``method``, ``refine``, ``recoding``, ``nulls`` and ``max_suppression``, by name.
        If empty, the file gets a proposed method and a proposed treatment of NULLs.
    name, output : names of the job and of its output; None for the table's name.
    output_kind : ``view`` or ``table``; ignored in databases without views of releases, which get a
        table.
    target : URL of the database for releases; None for the source's database or, if the source is
        a file, for a proposed one.
    further_keys : other keys of the job and their values, such as ``report`` and ``export``.
    """

    roles: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    hierarchies: Mapping[str, JsonMapping] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    name: str | None = None
    output: str | None = None
    output_kind: str = VIEW
    target: str | None = None
    further_keys: JsonMapping = field(default_factory=dict)

    def decide_column(
        self, attribute: Attribute, role_proposal: RoleProposal | None
    ) -> ColumnProposal:
        """Return the decided role of a column, or else the proposed one."""
        proposal = propose_column(attribute, role_proposal)
        decided_role = self.roles.get(attribute.name, proposal.role)
        if decided_role == proposal.role:
            return proposal
        type_name = attribute.sql_type or attribute.kind.value
        return replace(proposal, role=decided_role, comment=f"{type_name}: decided by you")

    def render_column_keys(self, column: ColumnProposal, kinds: Mapping[str, str]) -> str:
        """Render the value of a column in the file: its role and the keys of the role.

        Parameters
        ----------
        kinds : from the name of a column that looks like codes to its kind.
        """
        name = column.attribute.name
        keys: dict[str, object] = {}
        if column.role == "keep":
            keys["reason"] = self.reasons.get(name, "")
        if column.role == QUASI_IDENTIFIER and name in self.hierarchies:
            keys["hierarchy"] = self.hierarchies[name]
        elif column.role == QUASI_IDENTIFIER and name in kinds:
            keys["kind"] = kinds[name]
        key_texts = (f", {key}: {_to_yaml(value)}" for key, value in keys.items())
        return f"{{role: {column.role}{''.join(key_texts)}}}"


_NO_DECISIONS = UserDecisions()

_PROPOSED_OPENING = """\
# dbanon init made this from the columns of {table}. Roles are proposals: decide on each, then:
#   dbanon check FILE    dbanon plan FILE    dbanon run FILE
"""
_DECIDED_OPENING = """\
# dbanon workbench made this from your decisions on {table}. To run it:
#   dbanon run FILE
"""
_FIRST_LINES = """\
{opening}#
# role: identifier         identifies a person; never released
#       quasi_identifier   could re-identify a person, with other columns: generalized or averaged
#       sensitive          released unchanged, and counted as sensitive
#       keep               released unchanged; needs a reason: "…"
#       by                 groups that are anonymized separately; released unchanged
#       weight             how many persons a row stands for; released as the mean of each class
#       drop               not released
version: 1
source:
  url: {url}
target:
{target_url}  schema: {schema}
defaults:
  k: {k}
{options}  on_new_column: halt
jobs:
  - name: {name}
    table: {relation}
{row_keys}{reading}    columns:
"""
_METHOD_LINES = f"""\
  # {NUMBER_METHODS[0]}, or {CATEGORY_METHODS[0]} if not all quasi-identifiers are numbers or dates
{{forecast_comment}}  method: {{method}}
"""
_FILE_TARGET_LINES = """\
  # Releases of a file go to a separate database, which the first release creates
  url: {url}
"""
_OUTPUT_LINES = """\
    output:
      {kind}: {output}
"""
# Proposed limit on the change of counts since the last release: above the usual change between
# months, below that of a truncated file.
_EXPECTED_CHANGE = "30 %"
_EXPECT_COMMENT = (
    "A source that differs by more than this from the last release of this job, such as a truncated"
    " file, is refused. share_null limits NULLs (docs/jobs.md#expectations)"
)
# Only the account that runs the job can read it. A text needs no extra.
_RISK_FILE = "private/{job}-{release}.txt"
_RISK_COMMENT = (
    "The disclosure risk before and after, by the design weight, is written to a private file, for"
    " you and not for readers. max_individual and max_global refuse a release above a limit"
    " (docs/jobs.md#disclosure-risk)"
)
# In characters. YAML needs a question mark before longer keys, and the colon on a line of its own.
_MAX_SIMPLE_KEY_LENGTH = 1000
_KEEP_LAST_LINE = "      keep_last: 2\n"


def render_job_file(
    url: str,
    table: str,
    *,
    k: int = 5,
    key: Sequence[str] = (),
    on_sql: OnSql | None = None,
    reading: Reading = DEFAULT_READING,
    decisions: UserDecisions = _NO_DECISIONS,
    nulls: str | None = None,
    profile: str | None = None,
) -> str:
    """Return the text of a job file for a table.

    Parameters
    ----------
    url : the URL of the table's database. If it contains a password, the job file gets a variable
        instead.
    key : columns whose values identify a row; needed if the source is a view.
    reading : the format of a CSV file.
    decisions : a user's decisions, which override proposals.
    nulls : the treatment of NULLs in quasi-identifiers; None to propose the one with the least
        loss.
    profile : the name of a profile that the release has to keep; None for none.

    Raises
    ------
    TableNotFound : there is no such table.
    NoQuasiIdentifiers, TooFewRecords : a run of the file would be refused.
    DbanonError : the database cannot be read.
    """
    request = AdviceRequest(
        table=table,
        key=tuple(key),
        k=(k,),
        nulls=nulls,
        profile=profile,
        memory_limit=half_of_memory(),
    )
    description = _describe_table(url, request, on_sql, reading, decisions)
    proposals = tuple(
        decisions.decide_column(attribute, description.roles.get(attribute.name))
        for attribute in description.attributes
    )
    if decisions is _NO_DECISIONS:
        proposals = tuple(map(description.propose_weight, proposals))
    table_name = parse_relation(table).name
    job_name = decisions.name or re.sub(r"[^\w-]+", "-", table_name).strip("-_")[:63]
    qi_attributes = [column.attribute for column in proposals if column.role == QUASI_IDENTIFIER]
    # Columns of numbers that look like codes count as categories.
    qi_attributes = list(apply_kinds(qi_attributes, description.kinds))
    opening = _PROPOSED_OPENING if decisions is _NO_DECISIONS else _DECIDED_OPENING
    first_lines = _FIRST_LINES.format(
        # Escaped as in JSON, without the quotes, so that a line break cannot end the comment.
        opening=opening.format(table=json.dumps(table)[1:-1]),
        url=_render_url(url, "DBANON_URL"),
        target_url=_render_target_url(url, decisions),
        schema=SCHEMA,
        k=k,
        options=_render_options(decisions, qi_attributes, description.n_rows, k),
        name=_quote_if_needed(job_name if is_job_name(job_name) else "job"),
        relation=_quote_if_needed(table),
        reading=_render_reading(description.reading),
        row_keys=(f"    key: [{', '.join(map(_quote_if_needed, key))}]\n" if key else "")
        + _render_profile(profile, description.coding)
        + description.render_row_keys(decisions.options)
        + description.chain.render_lines(
            _quote_chain_url(url, decisions),
            table,
            to_comment=_render_comment,
            to_yaml=_quote_if_needed,
            is_commented_out=decisions is not _NO_DECISIONS,
            file_url=url if is_row_file_url(url) else None,
        )
        + description.render_expectations(proposes_chain=decisions is _NO_DECISIONS)
        + (description.render_risk() if decisions is _NO_DECISIONS else ""),
    )
    column_lines = _render_columns(decisions, proposals, description.kinds)
    output = _quote_if_needed(
        str(RelationName(None, decisions.output or description.output or table_name))
    )
    further_lines = "".join(
        f"    {name}: {_to_yaml(value)}\n" for name, value in decisions.further_keys.items()
    )
    output_kind = (
        decisions.output_kind if supports_view_releases(decisions.target or url) else TABLE
    )
    output_lines = _OUTPUT_LINES.format(kind=output_kind, output=output)
    # Earlier releases are kept only behind a view; a table is replaced.
    if output_kind == VIEW:
        output_lines += _KEEP_LAST_LINE
    return first_lines + column_lines + output_lines + further_lines


def _render_columns(
    decisions: UserDecisions, proposals: Sequence[ColumnProposal], kinds: Mapping[str, str]
) -> str:
    """Render the columns of the job, a line for each, aligned and with comments."""
    column_keys = [_quote_if_needed(column.attribute.name) for column in proposals]
    width = max((len(key) for key in column_keys if len(key) <= _MAX_SIMPLE_KEY_LENGTH), default=0)
    lines = [
        (f"{key}:".ljust(width + 1) if len(key) <= _MAX_SIMPLE_KEY_LENGTH else f"? {key}\n      :")
        + f" {decisions.render_column_keys(column, kinds)}"
        + f"  # {json.dumps(column.comment)[1:-1]}\n"
        for key, column in zip(column_keys, proposals, strict=True)
    ]
    return "".join(f"      {line}" for line in lines)


def _render_url(url: str, variable: str) -> str:
    """Render a URL for the file, or a variable instead of a URL with a password."""
    # Job files write a dollar sign twice, since a single one starts a variable.
    escaped_url = url.replace("$", "$$")
    if has_written_password(escaped_url):
        escaped_url = f"${{{variable}?set {variable}}}"
    return _quote_if_needed(escaped_url)


def _render_target_url(url: str, decisions: UserDecisions) -> str:
    """Render the URL for releases; empty if they go to the table's database."""
    if decisions.target is not None and not is_row_file_url(url):
        return f"  url: {_render_url(decisions.target, 'DBANON_TARGET')}\n"
    if not is_row_file_url(url):
        return ""
    return _FILE_TARGET_LINES.format(
        url=_render_url(decisions.target or PROPOSED_TARGET, "DBANON_TARGET")
    )


def _quote_chain_url(url: str, decisions: UserDecisions) -> str:
    """Quote for a shell the URL of the database that stores the chain."""
    chain_url = (decisions.target or PROPOSED_TARGET) if is_row_file_url(url) else url
    return quote_url_for_shell(chain_url, has_written_password(chain_url.replace("$", "$$")))


@dataclass(frozen=True)
class _TableDescription:
    """What a table's proposed job file depends on.

    Parameters
    ----------
    entity : the column that identifies persons; None if each row is a person.
    roles : the proposed role of each column, by name.
    null_choice : the treatment of NULLs in quasi-identifiers; None if they have no NULLs or the
        user decided on options.
    kinds : from the name of a quasi-identifier that looks like codes to its kind.
    chain : the facts that decide whether to propose a chain.
    reading : if the source is a file, its format, with a type for each column.
    output : the proposed name of the output; None for the table's name.
    coding : how a profile has quasi-identifiers coded.
    design_weight : the column to propose as design weight; None if there is none.
    weight_warning : what a copy of it would reveal; empty if that is little.
    """

    attributes: tuple[Attribute, ...]
    roles: Mapping[str, RoleProposal] = field(default_factory=dict)
    entity: str | None = None
    null_choice: NullChoice | None = None
    n_rows: int = 0
    kinds: Mapping[str, str] = field(default_factory=dict)
    chain: ChainProposal = field(default_factory=ChainProposal)
    reading: Reading = DEFAULT_READING
    output: str | None = None
    coding: Coding = NO_CODING
    design_weight: str | None = None
    weight_warning: str = ""

    def propose_weight(self, column: ColumnProposal) -> ColumnProposal:
        """Give the role weight to the proposed column; other columns keep their proposals."""
        # Releases of chains have no design weight.
        if column.attribute.name != self.design_weight or self.chain.is_part_of_job:
            return column
        warning = self.weight_warning
        comment = f"{column.comment}; {warning}" if warning else column.comment
        return replace(column, role=WEIGHT, comment=comment)

    def render_row_keys(self, decided_options: Mapping[str, object]) -> str:
        """Render the keys for the person identifier and for NULLs.

        Parameters
        ----------
        decided_options : options that the user decided on; if there are any, no treatment of NULLs
            is proposed.
        """
        lines = ""
        if self.entity:
            lines = (
                _render_comment(describe_entity(self.entity))
                + f"    entity: {_quote_if_needed(self.entity)}\n"
            )
        if self.null_choice is not None and not decided_options:
            max_suppression = self.null_choice.max_suppression
            comment = f"NULLs in quasi-identifiers: {self.null_choice}"
            if max_suppression:
                comment += f". With it, up to {max_suppression:.0%} of the rows are suppressed"
            lines += _render_comment(comment) + f"    nulls: {self.null_choice.nulls}\n"
            lines += f"    max_suppression: {max_suppression}\n" if max_suppression else ""
        return lines

    def render_risk(self) -> str:
        """Render the key ``risk`` with comments; empty if there is no design weight to measure by.

        Jobs of a chain have no risk, nor those of persons with several rows.
        """
        if self.design_weight is None or self.entity or self.chain.is_part_of_job:
            return ""
        return _render_comment(_RISK_COMMENT) + f"    risk: {_to_yaml({'file': _RISK_FILE})}\n"

    def render_expectations(self, *, proposes_chain: bool) -> str:
        """Render the key ``expect`` with comments.

        Parameters
        ----------
        proposes_chain : whether a proposed chain is part of the job.
        """
        has_entity = bool(self.entity) or (proposes_chain and self.chain.is_part_of_job)
        persons_key = f", persons: {_EXPECTED_CHANGE}" if has_entity else ""
        return (
            _render_comment(_EXPECT_COMMENT)
            + f"    expect: {{rows: {_EXPECTED_CHANGE}{persons_key}}}\n"
        )


def _describe_table(
    url: str,
    request: AdviceRequest,
    on_sql: OnSql | None,
    reading: Reading,
    decisions: UserDecisions,
) -> _TableDescription:
    """Describe a table; if it has no rows, only its columns are described."""
    store = open_store(url, on_sql, reading=reading, table=request.table)
    # A session that changes nothing, except that it may create temporary tables for reading.
    with store.planning(staging=True) as session:
        source = SqlSource(session)
        relation = session.catalog.find_source(parse_relation(request.table))
        attributes = relation.schema.attributes
        try:
            role_proposals = propose_roles(request, source)
        except NoRows:
            return _TableDescription(attributes, reading=reading)
        proposals = [
            decisions.decide_column(attribute, role_proposals.roles[attribute.name])
            for attribute in attributes
        ]
        qi_names = tuple(
            column.attribute.name for column in proposals if column.role == QUASI_IDENTIFIER
        )
        if not qi_names and decisions is _NO_DECISIONS:
            raise no_quasi_identifiers_error(request.table)
        identifiers = [column.attribute.name for column in proposals if column.role == IDENTIFIER]
        entity = role_proposals.entity if role_proposals.entity in identifiers else None
        n_rows = role_proposals.profile.rows
        single_row_person_column = person_column(
            role_proposals.profile.columns, identifiers, n_rows
        )
        has_chains = "chains" not in session.unsupported_features
        # The chain of a file is in the database to which its releases go.
        if is_row_file_url(url):
            has_chains = supports_chains(decisions.target or PROPOSED_TARGET)
        chain = ChainProposal(single_row_person_column, entity, is_supported=has_chains)
        # Releases of chains have no profile.
        if request.profile is not None:
            chain = ChainProposal()
        null_choice = None
        if qi_names and not decisions.options:
            request = replace(request, quasi_identifiers=qi_names)
            # Releases of chains cannot treat NULLs as ``merge`` does.
            can_merge = decisions is not _NO_DECISIONS or not chain.is_part_of_job
            null_choice = propose_nulls(
                request, role_proposals.profile, entity, source, can_merge=can_merge
            )
        # If the source is a file, write down how it was read, so that later files are read alike:
        # the types, and options such as ``decimal`` that were inferred from the values.
        columns = session.describe_file_columns(relation)
        reading = reading.with_types(
            {column.name: column.kind for column in columns if column.kind},
            [column.deciding_option for column in columns if column.deciding_option is not None],
        )
        kinds = propose_kinds(request, qi_names, role_proposals.profile)
        design_weight = find_design_weight(role_proposals.roles, role_proposals.profile)
        # The output, a view, must not have the name of an existing table.
        output = None
        if supports_view_releases(url) and decisions.target is None:
            output = find_free_output_name(session, relation.name)
        return _TableDescription(
            attributes,
            roles=role_proposals.roles,
            entity=entity,
            null_choice=null_choice,
            n_rows=n_rows,
            kinds=kinds,
            chain=chain,
            reading=reading,
            output=output,
            coding=propose_coding(request.profile, qi_names, role_proposals.profile),
            design_weight=design_weight,
            weight_warning=""
            if design_weight is None
            else describe_copied_weight(role_proposals.profile.column(design_weight)),
        )


def _render_profile(profile: str | None, coding: Coding) -> str:
    """Render the keys of a profile, and of the coding that it needs; empty without a profile."""
    if profile is None:
        return ""
    options = {"profile": profile, "top": coding.top, "bottom": coding.bottom}
    return "".join(f"    {name}: {_to_yaml(value)}\n" for name, value in options.items() if value)


def find_free_output_name(session: Session, table: RelationName) -> str | None:
    """Return a free name for the output view; None if the source table's name is free.

    A name is free unless a table in the schema for releases has it. A view there was made by
    earlier releases, and the job replaces it.
    """
    candidates = (table.name, *(f"{table.name}_{n}" for n in ("released", *range(2, 100))))
    for name in candidates:
        existing = session.catalog.find_existing(
            session.catalog.resolve_output(RelationName(SCHEMA, name))
        )
        if existing is None or existing.kind == VIEW:
            return None if name == table.name else name
    return None


def _render_options(
    decisions: UserDecisions, qi_attributes: Sequence[Attribute], n_rows: int, k: int
) -> str:
    """Render the decided options of the release, or else a proposed method."""
    if decisions.options:
        return "".join(
            f"  {name}: {_to_yaml(value)}\n" for name, value in decisions.options.items()
        )
    return _render_method(qi_attributes, n_rows, k) if qi_attributes else ""


def _render_method(qi_attributes: Sequence[Attribute], n_rows: int, k: int) -> str:
    """Render a proposed method with its forecast: the default, or a faster one if that is slow."""
    # How many quasi-identifiers are numbers, and how many are categories.
    shape = Shape.of(qi_attributes)
    method = fastest_method(
        default_methods(all_numbers=not shape.is_mixed)[:1], n_rows, shape, DEFAULT_MAX_SECONDS
    )
    duration = forecast(Policy(k=k, method=method), n_rows, shape) if n_rows else None
    comment = ""
    if duration:
        comment = f"  # Forecast: finding the classes of {n_rows:,} rows takes {duration}\n"
    return _METHOD_LINES.format(forecast_comment=comment, method=method)


def _render_comment(text: str) -> str:
    """Render a text as comment lines of a job."""
    # With the indent and the number sign, lines have at most 100 characters.
    lines = wrap(f"{text}.", 94, break_on_hyphens=False)
    return "".join(f"    # {escape_unprintable(line)}\n" for line in lines)


def _render_reading(reading: Reading) -> str:
    """Render the format of a CSV file as keys of a job."""
    lines = []
    for name, value in reading.to_dict().items():
        if isinstance(value, Mapping):
            lines.append(f"    {name}:\n")
            lines += [
                f"      {_quote_if_needed(key)}: {_quote_if_needed(text)}\n"
                for key, text in value.items()
            ]
        else:
            lines.append(f"    {name}: {_to_yaml(value)}\n")
    return "".join(lines)


def _to_yaml(value: object) -> str:
    """Render a value as YAML in one line, with lists and mappings in brackets."""
    if isinstance(value, Mapping):
        items = (f"{_quote_if_needed(key)}: {_to_yaml(item)}" for key, item in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_to_yaml, value))}]"
    return _quote_if_needed(value) if isinstance(value, str) else json.dumps(value)


def _quote_if_needed(text: str) -> str:
    """Render a text as YAML, in quotes if it needs them."""
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
    escaped_text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escape_unprintable(escaped_text)}"'
