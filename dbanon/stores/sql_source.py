"""A relation of a database as the source of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.advice.profile import Profile
from dbanon.data.chunks import bytes_per_record
from dbanon.data.frozen import dataclass
from dbanon.data.memory import worker_threads
from dbanon.data.microdata import Coded, ColumnRoles, Microdata
from dbanon.data.partition import Partition
from dbanon.data.pieces import Disk
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import (
    DatabaseFailure,
    DbanonError,
    InsufficientRights,
    InvalidParameter,
    RuleWithoutColumn,
    SourceChanged,
    TableChanged,
    nearest_names,
)
from dbanon.hierarchy.edges import Pulse
from dbanon.hierarchy.leaves import leaf_text, sort_values
from dbanon.hierarchy.spec import HierarchySpec
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.job import Asked, Job
from dbanon.ledger.rules import require_digest
from dbanon.release.attribute_disclosure import ValueGroups, require_all_counted
from dbanon.sessions import statements
from dbanon.sessions.base import FilteredRelation, Relation
from dbanon.sessions.names import RelationName, parse_relation, quote, quote_list
from dbanon.sessions.session import Session
from dbanon.stores import digest, hierarchies
from dbanon.stores.ports import Draft, Progress, SourceCounts
from dbanon.stores.source_counts import (
    classes_below,
    different_rows,
    identifiers,
    numbers_of_persons,
    profile_columns,
    spellings,
)
from dbanon.stores.sql_forms import forms_of


@dataclass(frozen=True)
class SqlSource:
    """What one transaction on a database reads.

    Parameters
    ----------
    disk : where values wait until they are looked at; None for in memory.
    """

    session: Session
    disk: Disk | None = None

    @property
    def drawn(self) -> Mapping[str, Any]:
        """How the rows were drawn, where they come from elsewhere."""
        return self.session.drawn

    def describe(self, job: Asked) -> Relation:
        """The relation of a job; raises as ``ports.Source``."""
        return self._with_roles(job, self.session.find_source(parse_relation(job.table)))

    def _with_roles(self, job: Asked, relation: Relation) -> Relation:
        """The relation, after a check that it has all columns that the job names.

        A job by rules took them in another transaction: the table may be another one by now.
        """
        if job.declared is not None:
            require_digest(self.session, relation.name, job.declared)
        if job.roles is not None:
            columns = [attribute.name for attribute in relation.schema.attributes]
            missing = [name for name in job.roles if name not in columns]
            if missing:
                near = filter(None, (nearest_names(name, columns, limit=1) for name in missing))
                if job.declared is not None:
                    raise RuleWithoutColumn(
                        f"{relation.name} does not have all columns that have a rule; nothing was"
                        " published.",
                        detail="Missing: " + ", ".join(f'"{name}"' for name in missing) + ".",
                        hint=" ".join([*near, "Its owner declares them anew, or undeclares them."]),
                    )
                raise TableChanged(
                    f"{relation.name} does not have all columns that have a role in the job file.",
                    detail="Missing: " + ", ".join(f'"{name}"' for name in missing) + ".",
                    hint=" ".join([*near, "Write them as the table has them, or take them out."]),
                )
        for name in job.named:
            relation.attribute(name)
        self.session.require_typed(job.named)
        return relation

    def locate(self, relation: Relation, job: Job, names: Sequence[str]) -> Relation:
        """The relation with its row key, after all checks; raises as ``ports.Source``."""
        relation = self.session.locate(relation, job.key)
        if job.policy.nulls == "suppress":
            relation = replace(relation, required=job.quasi_identifiers)
        relation = self.choose(relation, job, names)
        self.session.require_equality(relation, [*job.by, *job.in_sets, *job.key])
        return relation

    def choose(self, relation: Relation, job: Job, names: Sequence[str]) -> Relation:
        """The rows that a job chooses, after a check that these columns may be read."""
        self.session.require_rights(relation, names)
        return relation if job.where is None else self._where(relation, job, names)

    def _where(self, relation: Relation, job: Job, names: Sequence[str]) -> Relation:
        """The rows that a job's condition chooses, which the database has to take."""
        filtered = _filtered_relation(relation, job, names, str(job.where))
        self.session.require_columns_of_views(filtered.columns)
        try:
            self.session.rows(f"SELECT 1 FROM {filtered.quoted} AS s LIMIT 0")
        except DbanonError as error:
            # A statement that is refused is a plain failure, or names what is not there, as after a
            # change; others say what is the matter.
            refused = type(error) in (DatabaseFailure, SourceChanged)
            if isinstance(error, InsufficientRights | DatabaseFailure) and not refused:
                raise
            raise InvalidParameter(
                "The database does not accept the condition in where.",
                detail=error.detail,
                hint="It is SQL over the columns of the table, as behind WHERE. On PostgreSQL"
                " functions of other schemas than pg_catalog need their schema's name.",
            ) from None
        return replace(relation, filtered=filtered)

    def takes(self, relation: Relation, columns: Sequence[str], condition: str) -> bool:
        """True where a condition needs no more than these columns, and no whole row either."""
        # Under a name of its own. A transaction may have ended where it is refused.
        query = (
            f"SELECT 1 FROM (SELECT {quote_list(columns)} FROM {relation.name.quoted})"
            f" AS dbanon_known WHERE (\n{condition}\n) LIMIT 0"
        )
        try:
            self.session.rows(query)
        except DbanonError:
            return False
        return True

    def narrowed(
        self, relation: Relation, job: Job, names: Sequence[str], condition: str
    ) -> Relation:
        """Of the rows that a job chooses those that meet one more condition, of dbanon's own."""
        both = condition if job.where is None else f"(\n{job.where}\n) AND {condition}"
        filtered = _filtered_relation(relation, job, names, both)
        self.session.require_columns_of_views(filtered.columns)
        return replace(relation, filtered=filtered)

    def state(self, relation: Relation) -> Mapping[str, Any]:
        """The types of its columns, and what the database counts of writes to it."""
        types = {a.name: a.sql_type for a in relation.schema.attributes}
        return {"types": types, **self.session.state_of(relation.name)}

    def pin(self, relation: Relation, names: Sequence[str]) -> Relation:
        """The relation as the transaction's one snapshot has it."""
        return self.session.pin(relation, names)

    def inspect(self, relation: Relation, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
        """The attributes with what only their values tell; raises MixedTypes."""
        return self.session.inspect(relation, attributes)

    def hierarchy(self, column: str, spec: HierarchySpec, pulse: Pulse) -> Hierarchy:
        """A hierarchy of this database, read with the caller's rights."""
        return hierarchies.resolve(self.session, spec, pulse)

    def require_leaves(self, attribute: Attribute) -> None:
        """Check that the values are no instants, which databases spell differently."""
        if attribute.kind is Kind.TIMESTAMP:
            raise InvalidParameter(
                f'The privacy model of "{attribute.name}" has a hierarchy of timestamps.',
                hint="Use distance ordered, or give the column as a date in a view.",
            )

    def distinct(self, relation: Relation, attribute: Attribute) -> list[str]:
        """The values of a column but for NULL, of the rows that are read, in its order."""
        [looked_at] = self.session.inspect(relation, [attribute])
        query = statements.distinct_values(
            relation.relation,
            attribute.name,
            self.session.text_of(looked_at),
            relation.and_where,
        )
        texts = {leaf_text(text, looked_at) for (text,) in self.session.rows(query)}
        return sort_values(texts, attribute)

    def count(self, relation: Relation) -> int:
        """The number of rows, with those that are withheld for a NULL."""
        query = f"SELECT count(*) FROM {relation.relation.quoted} AS s"
        return int(self.session.rows(query)[0][0])

    def totals(
        self, relation: Relation, persons: Sequence[Attribute], columns: Sequence[str]
    ) -> SourceCounts:
        """Rows, persons and NULLs, counted in SQL."""
        counts = [f"count(DISTINCT {self.session.value_of(person)})" for person in persons]
        counts += [f"count(s.{quote(name)})" for name in columns]
        query = f"SELECT {', '.join(['count(*)', *counts])} FROM {relation.relation.quoted} AS s"
        rows, *counted = map(int, self.session.rows(query)[0])
        nulls = (rows - count for count in counted[len(persons) :])
        totals = {"rows": rows} | ({"persons": counted[0]} if persons else {})
        return SourceCounts(totals, dict(zip(columns, nulls, strict=True)))

    def different_rows(self, relation: Relation, names: Sequence[str]) -> float:
        """The share of rows whose values in these columns no row before has, of the first rows."""
        return different_rows(self.session, relation, names)

    def digest(
        self, relation: Relation, names: Sequence[str], salt: int
    ) -> tuple[str | int, ...] | None:
        """What tells the rows from others; see ``digest.of_columns``."""
        return digest.of_columns(self.session, relation, names, salt)

    def profile(self, relation: Relation) -> Profile:
        """What is counted of all columns, and the form of their first values."""
        attributes, keys = relation.schema.attributes, self.session.lone_keys(relation)
        rows, columns = profile_columns(self.session, relation.relation, attributes, keys)
        forms = forms_of(self.session, relation.relation, attributes)
        return Profile(rows, tuple(replace(column, form=forms[column.name]) for column in columns))

    def numbers_of_persons(self, relation: Relation) -> dict[str, str]:
        """The columns that look like numbers of persons, and why."""
        return numbers_of_persons(self.session, relation)

    def identifiers(self, relation: Relation, names: Sequence[str]) -> dict[str, str]:
        """Those of these columns that look like identifiers, and why, counted in SQL."""
        return identifiers(self.session, relation, names)

    def spellings(self, relation: Relation, person: Attribute) -> dict[str, int]:
        """The persons by how the identifier is normalized, counted in SQL."""
        return spellings(self.session, relation, person)

    def classes_below(self, draft: Draft, partition: Partition, name: str) -> tuple[int, int]:
        """Classes, and those that hold fewer than k values of a column, counted in SQL."""
        k = int(draft.job.policy.k)
        return classes_below(self.session, draft.relation, draft.microdata, partition, name, k)

    def count_withheld(self, relation: Relation) -> int:
        """The number of rows that are withheld for a NULL."""
        return self.session.count_withheld(relation)

    def read(
        self, relation: Relation, roles: ColumnRoles, job: Job, progress: Progress
    ) -> Microdata:
        """The wanted columns of the rows; raises as ``microdata_from_chunks``."""
        microdata = roles.by_role(
            self.session.read(
                relation,
                roles.columns,
                chunk_rows=job.chunk_rows,
                memory_limit=self._limit(job, roles.columns),
                progress=progress,
                disk=self.disk,
                passthrough=roles.passthrough,
            )
        )
        ranked = {
            name: in_order(self.session, relation.relation, relation.attribute(name), column)
            for name, column in microdata.sensitive.items()
            if name not in roles.leaves
        }
        return replace(microdata, sensitive={**microdata.sensitive, **ranked})

    def _limit(self, job: Job, columns: Sequence[Attribute]) -> int | None:
        """The bytes that what is read may take: half of all is the database's, where there is a
        disk, and blocks are worked on beside what was read.
        """
        limit = job.memory_limit
        if self.disk is None or limit is None:
            return limit
        in_work = worker_threads() * job.policy.records_at_once
        coded = sum(column.kind.is_coded for column in columns)
        return max(limit // 2 - in_work * bytes_per_record(len(columns), coded), 0)

    def exact_totals(
        self,
        relation: Relation,
        microdata: Microdata,
        partition: Partition,
        attributes: Sequence[Attribute],
    ) -> dict[str, NDArray[np.object_]]:
        """Sums in each class, by exact arithmetic in SQL."""
        return self.session.exact_totals(relation, microdata, partition, attributes)

    def kept_rows(
        self, relation: Relation, names: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[tuple[Any, ...]]]]:
        """Keys and values, row by row, in pieces."""
        return self.session.read_rows(relation, names, chunk_rows)

    def pads(self, attribute: Attribute) -> bool:
        """Whether ``kept_rows`` has the column's values with spaces that do not count."""
        return self.session.pads(attribute)

    def different(self, draft: Draft, name: str) -> tuple[int, int]:
        """The released rows with a value in a column, and how many texts these have, by SQL."""
        session, text = self.session, self.session.text_of(draft.relation.attribute(name))
        rows = session.released_rows(draft.relation, draft.microdata, draft.release.partition)
        [(having, texts)] = session.rows(
            f"SELECT count(told), count(DISTINCT told) FROM (SELECT {text} AS told FROM {rows})"
            " AS told_apart"
        )
        return int(having), int(texts)

    def groups(self, draft: Draft, name: str) -> ValueGroups:
        """The released rows by their value of a column, counted in SQL: nothing of it is read.

        Raises
        ------
        RecountFailed : other rows were counted than those that are released.
        """
        session, k = self.session, int(draft.job.policy.k)
        persons = [f"DISTINCT {session.value_of(person)}" for person in draft.wanted.persons]
        few = f"count({', '.join(persons) or '*'}) < {k}"
        value = session.compared(draft.relation.attribute(name))
        return self._groups(draft, name, value, draft.microdata.attributes, few)

    def originals(self, draft: Draft, name: str, columns: Sequence[str]) -> ValueGroups:
        """The released rows by their value of a quasi-identifier; raises as ``groups``."""
        [value] = [self._original(a) for a in draft.microdata.attributes if a.name == name]
        attributes = [draft.relation.attribute(column) for column in columns]
        return self._groups(draft, name, value, attributes, "1 = 0")

    def _groups(
        self, draft: Draft, name: str, value: str, others: Sequence[Attribute], few: str
    ) -> ValueGroups:
        session, partition = self.session, draft.release.partition
        query = statements.value_groups(
            session.released_rows(draft.relation, draft.microdata, partition),
            value,
            [self._original(attribute) for attribute in others],
            few,
        )
        cells = np.array([[int(value) for value in row] for row in session.rows(query)], np.int64)
        cells = cells.reshape(-1, 4 + len(others))
        require_all_counted(name, int(cells[:, 1] @ cells[:, 2]), int(partition.sizes.sum()))
        cells = cells[cells[:, 0] == 0]
        return ValueGroups(cells[:, 1], cells[:, 2], cells[:, 3], cells[:, 4:])

    def _original(self, attribute: Attribute) -> str:
        if attribute.kind.is_coded:
            return self.session.text_of(attribute)
        return f"s.{quote(attribute.name)}"


def _filtered_relation(
    relation: Relation, job: Job, names: Sequence[str], condition: str
) -> FilteredRelation:
    """The rows that a condition chooses, with the columns that are read and the address of each."""
    hidden = [e.removeprefix("s.") for e in relation.located.expressions]
    key_columns = [e[1:-1].replace('""', '"') for e in hidden if e.startswith('"')]
    columns = dict.fromkeys([*names, *job.key, *relation.located.mapped, *key_columns])
    addresses = () if relation.located.mapped else tuple(e for e in hidden if e.isidentifier())
    name = relation.name
    return FilteredRelation(
        name.schema,
        name.name,
        condition,
        tuple(columns),
        addresses,
        catalog=name.catalog,
        staged=name.staged,
    )


def in_order(
    session: Session, relation: RelationName, attribute: Attribute, column: Coded
) -> Coded:
    """A column in its order: that of numbers is not that of their texts.

    Two texts can be one number: they become one value, with several texts.
    """
    if not attribute.kind.is_numeric:
        return column
    query = statements.value_ranks(relation, attribute.name, session.text_of(attribute))
    ranks = {text: int(rank) for text, rank in session.rows(query)}
    text_of = {ranks[text]: text for text in reversed(column.values)}
    index_of = {rank: index for index, rank in enumerate(sorted(text_of))}
    codes_by_value = [index_of[ranks[text]] for text in column.values]
    # One more place for the code -1 of NULL.
    codes = np.append(np.array(codes_by_value, np.int32), np.int32(-1))[column.codes]
    texts = column.codes if len(text_of) < len(column.values) else None
    return Coded(codes, tuple(text_of[rank] for rank in sorted(text_of)), texts)
