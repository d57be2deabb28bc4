"""A release written to a table that readers do not see yet, and its persons per class.

A dictionary is a staging table with the distinct values of a coded column, and a code, an integer,
for each. The codes of the entity column stand for persons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dbanon.data.bands import CopyCoding
from dbanon.data.counts import ClassValueCounts, CountRequests, EntityCount
from dbanon.data.frozen import dataclass
from dbanon.sessions import recount_statements, statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session
from dbanon.stores.ports import StagedRelease
from dbanon.stores.sql_counts import to_class_value_counts


@dataclass(frozen=True, eq=False)
class StagedSqlRelease(StagedRelease):
    """A release in a table that readers do not see yet.

    Parameters
    ----------
    columns : the name, SQL type and SQL expression of each released column.
    is_copied : whether retained columns came from another database and were staged row by row.
    salt : the salt for hashes of persons in the ledger, in hexadecimal digits; None if persons are
        not recorded.
    """

    columns: tuple[tuple[str, str, str], ...]
    is_copied: bool
    salt: str | None = None

    @property
    def relation(self) -> RelationName:
        """The table, which still has its staging name."""
        return self.draft.output.staging_name

    @property
    def retained_columns(self) -> list[str]:
        """The columns whose values differ within a class: released unchanged, or as pseudonyms."""
        recoded_names = {column.attribute.name for column in self.draft.release.class_values}
        return [name for name, _, _ in self.columns if name not in recoded_names]


def count_persons(
    session: Session, staged_release: StagedSqlRelease, requests: CountRequests
) -> EntityCount:
    """Count the persons in each class of a written release.

    The release does not contain person identifiers. So its values are staged again, now with the
    person of each row.
    """
    draft = staged_release.draft
    # The SQL type and the SQL expression of each column that forms classes.
    class_columns = [
        (sql_type, expression)
        for name, sql_type, expression in staged_release.columns
        if name in requests.columns
    ]
    column_by_name = {
        name: (sql_type, expression) for name, sql_type, expression in staged_release.columns
    }
    class_names = [name for name in column_by_name if name in requests.columns]
    names_in_sets = {name for names in requests.further_sets for name in names}
    # Besides the classes, combinations of further sets of columns are counted. These columns are in
    # such sets only.
    set_only_names = [
        name
        for name in column_by_name
        if name in names_in_sets - {*class_names, *requests.sensitive}
    ]
    staged_names = [*class_names, *requests.sensitive, *set_only_names]
    further_columns = [column_by_name[name] for name in (*requests.sensitive, *set_only_names)]
    source: Relation | None = None
    # person_sql is SQL of the person of a row, and joins are the JOINs that it needs.
    if staged_release.is_copied:
        # The staged rows, alias r, have the person after the copied columns.
        person_sql, joins = (
            f"r.{statements.retained_column_name(len(draft.job.copied_columns))}",
            "",
        )
        columns_to_read = []
    else:
        source = draft.relation
        [person_column] = draft.roles.entity_columns
        # The position of the column's dictionary, which was staged when the column was read.
        dictionary_position = draft.roles.columns.index(person_column)
        joins = statements.join_values(dictionary_position, session.dialect.value_of(person_column))
        person_sql = statements.code_column(dictionary_position)
        # The columns of the source that the SQL of the staged values reads.
        staged_name_set = set(staged_names)
        columns_to_read = [
            name
            for name in staged_release.retained_columns
            if name in staged_name_set and name != person_column.name
        ]
        columns_to_read.append(person_column.name)
    # The staged columns, by released name. The staging table has the alias s.
    staged_expressions = {
        name: f"s.{statements.value_column(index)}" for index, name in enumerate(staged_names)
    }
    # SQL that is equal for values that look the same to readers.
    displayed_expressions = dict(
        zip(
            staged_names,
            session.catalog.expressions_as_displayed(staged_release.relation, staged_expressions),
            strict=True,
        )
    )
    class_keys = [displayed_expressions[name] for name in class_names]
    entity_count = _recount_entities(
        session,
        class_columns,
        source,
        person_sql,
        joins,
        further_columns,
        source_columns=columns_to_read,
        keys=class_keys,
    )
    column_set_counts = tuple(
        _recount_staged_entities(session, [displayed_expressions[name] for name in names])
        for names in requests.further_sets
    )
    value_counts = _count_persons_by_value(session, staged_release, requests, class_keys)
    return replace(entity_count, value_counts=value_counts, further_sets=column_set_counts)


def count_tails(
    session: Session, staged_release: StagedSqlRelease, value: str, coding: CopyCoding
) -> dict[str, int]:
    """Count the persons or rows of a release in each coded tail of a copied column, by label.

    Parameters
    ----------
    value : SQL of the released value.
    """
    draft = staged_release.draft
    person, joins = "", ""
    if staged_release.is_copied:
        rows = f"{quote(statements.ROWS)} AS r"
        person = f"r.{statements.retained_column_name(len(draft.job.copied_columns))}"
    else:
        rows = statements.released_rows(
            draft.relation.from_clause, draft.relation.required_locator.expressions
        )
        session.stage_labels(
            draft.microdata, draft.release.partition, draft.relation.required_locator.types
        )
        for column in draft.roles.entity_columns:
            position = draft.roles.columns.index(column)
            joins = statements.join_values(position, session.dialect.value_of(column))
            person = statements.code_column(position)
    units = f"DISTINCT {person}" if draft.roles.entity_columns else "*"
    tail_counts = {}
    # Labels are made of numbers and signs, so they need no escaping.
    for label in coding.tail_labels:
        query = f"SELECT count({units}) FROM {rows}{joins} WHERE {value} = '{label}'"
        [(n_units,)] = session.rows(query)
        tail_counts[label] = int(n_units)
    return tail_counts


def _recount_entities(
    session: Session,
    columns: Sequence[tuple[str, str]],
    source: Relation | None,
    person: str,
    joins: str,
    further_columns: Sequence[tuple[str, str]] = (),
    source_columns: Sequence[str] = (),
    *,
    keys: Sequence[tuple[str, ...]],
) -> EntityCount:
    """Stage the released values and the person of each row, and count the persons per class.

    The values are staged with the types that they have in the release, so that the classes are
    those that readers see.

    Parameters
    ----------
    columns : SQL type and SQL expression of each column that defines a class.
    person : SQL of the integer that stands for the person of a row.
    source, joins, source_columns : where ``person`` and expressions take values from, as in
        ``insert``.
    further_columns : SQL type and SQL expression of other columns to stage. If there are any,
        the result includes the number of persons in each class.
    keys : for each column that defines a class, SQL expressions over the alias s to group by;
        see ``columns_as_displayed``.
    """
    names = [statements.value_column(i) for i in range(len(columns) + len(further_columns))]
    types = [
        session.dialect.declared_type(sql_type) for sql_type, _ in (*columns, *further_columns)
    ]
    session.run(
        statements.create_staging(
            statements.ENTITIES,
            [*zip(names, types, strict=True), ("person", "integer")],
            session.dialect.staging_suffix,
        )
    )
    values = dict(
        zip(names, (expression for _, expression in (*columns, *further_columns)), strict=True)
    )
    table = RelationName(None, statements.ENTITIES)
    session.insert(table, values | {"person": person}, source, source_columns, joins)
    entity_count = _recount_staged_entities(session, keys)
    if not further_columns:
        return entity_count
    # The histogram has the number of classes of each size. Classes are numbered from 1, in the
    # order of their values.
    persons_per_class = np.zeros(sum(entity_count.histogram.values()), np.int64)
    for number, persons in session.rows(recount_statements.persons_in_classes(keys)):
        persons_per_class[int(number) - 1] = int(persons)
    return replace(entity_count, persons_per_class=persons_per_class)


def _recount_staged_entities(session: Session, keys: Sequence[tuple[str, ...]]) -> EntityCount:
    """Count the persons in each class of the staged rows.

    Parameters
    ----------
    keys : for each column that defines a class, SQL expressions over the alias s to group by;
        see ``columns_as_displayed``.
    """
    rows = session.rows(recount_statements.recount_entities(keys))
    return EntityCount(
        persons=int(session.rows(recount_statements.count_entities())[0][0]),
        smallest=min((int(persons) for _, _, persons in rows), default=0),
        histogram={int(size): int(count) for size, count, _ in rows},
    )


def stage_release_persons(
    session: Session, staged_release: StagedSqlRelease, requests: CountRequests
) -> None:
    """Stage the persons of each class as salted hashes.

    This reads the rows that ``count_persons`` has staged.
    """
    draft = staged_release.draft
    [person_column] = draft.roles.entity_columns
    names = [name for name, _, _ in staged_release.columns if name in requests.columns]
    staged_expressions = {
        name: f"s.{statements.value_column(index)}" for index, name in enumerate(names)
    }
    keys = session.catalog.expressions_as_displayed(staged_release.relation, staged_expressions)
    # ``salted_hash_of`` builds SQL that reads the staged salt.
    session.tags.stage_salt(bytes.fromhex(str(staged_release.salt)))
    # In a dictionary, the column of values is named "value".
    text = session.dialect.text_of(replace(person_column, name="value"))
    # The dictionary of the persons, which was staged when the column was read.
    dictionary = statements.values_table(draft.roles.columns.index(person_column))
    session.run(
        recount_statements.create_release_persons(
            keys, dictionary, session.tags.salted_hash_of(text), session.dialect.staging_suffix
        )
    )


def _count_persons_by_value(
    session: Session,
    staged_release: StagedSqlRelease,
    requests: CountRequests,
    class_keys: Sequence[tuple[str, ...]],
) -> dict[str, ClassValueCounts]:
    """Count, for each sensitive column, the persons with each value in each class.

    Parameters
    ----------
    class_keys : for each class column, SQL expressions over the staged rows, which are all equal
        exactly if two values look the same to readers. One expression may not suffice: SQLite's 1
        and 1.0 are equal, but look different.
    """
    # The rows that ``count_persons`` has staged, with the person of each.
    staging = RelationName(None, statements.ENTITIES)
    counts_by_name = {}
    # The sensitive columns are staged after the columns that form classes.
    for position, name in enumerate(requests.sensitive, len(class_keys)):
        attribute = staged_release.draft.relation.attribute(name)
        staged_attribute = replace(attribute, name=statements.value_column(position))
        text = session.dialect.text_of(staged_attribute)
        # Compare numbers and not their texts, so that a person counts once for each number.
        comparison_key = f"s.{quote(staged_attribute.name)}" if attribute.kind.is_numeric else text
        count_rows = session.rows(
            recount_statements.persons_with_values(class_keys, text, comparison_key)
        )
        # Privacy models compare values of these columns by their hierarchy, so they need no order.
        ordering_attribute = None if name in requests.hierarchy_columns else staged_attribute
        counts_by_name[name] = to_class_value_counts(
            session, staging, ordering_attribute, count_rows
        )
    return counts_by_name
