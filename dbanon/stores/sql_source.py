"""A table or view of a database, as the source of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from dbanon.advice.profile import Profile
from dbanon.data.date_range import DateRange
from dbanon.data.frozen import dataclass
from dbanon.data.microdata import CodedColumn, ColumnRoles, Microdata
from dbanon.data.partition import Partition
from dbanon.data.pieces import Disk
from dbanon.data.schema import Attribute, Kind
from dbanon.data.types import JsonMapping, SqlRow
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
from dbanon.hierarchy.leaves import format_leaf, sort_values
from dbanon.hierarchy.spec import HierarchySpec
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.job import Job, SourceRequest
from dbanon.job.pseudonym import PseudonymKey
from dbanon.partitioning.record_memory import RecordMemory
from dbanon.release.attribute_disclosure import ValueGroups, require_all_counted
from dbanon.sessions import statements
from dbanon.sessions.base import FilteredRelation, Relation
from dbanon.sessions.names import RelationName, parse_relation, quote, quote_list
from dbanon.sessions.session import Session
from dbanon.stores import digest
from dbanon.stores.ports import PreparedRelease, Progress, SourceCounts
from dbanon.stores.source_counts import (
    count_classes_below_k,
    count_spellings,
    estimate_distinct_share,
    find_direct_identifiers,
    find_identifier_columns,
    profile_columns,
)
from dbanon.stores.sql_forms import detect_forms


@dataclass(frozen=True)
class SqlSource:
    """A source that reads in one transaction on a database.

    Parameters
    ----------
    session : the transaction on the source's database.
    disk : spills values to disk until they are needed; None keeps them in memory.
    """

    session: Session
    disk: Disk | None = None

    @property
    def copied_rows_summary(self) -> Mapping[str, object]:
        """How many rows were copied from another system, and how; empty if none were."""
        return self.session.copied_rows_summary

    def describe(self, job: SourceRequest) -> Relation:
        """Look up the relation of a job; raises the same errors as ``ports.Source``."""
        return self._require_columns(
            job, self.session.catalog.find_source(parse_relation(job.table))
        )

    def _require_columns(self, job: SourceRequest, relation: Relation) -> Relation:
        """Check that a relation has all columns that the job names, and return it.

        The table's owner may have declared rules, which say how each column is released. They were
        read in an earlier transaction, and the table may have changed since then.

        Raises
        ------
        RuleWithoutColumn, TableChanged, ColumnNotFound : the relation has no column of a name.
        """
        if job.declared is not None:
            from dbanon.ledger.rules import require_unchanged_rules

            require_unchanged_rules(self.session, relation.name, job.declared)
        # None if columns without a role are allowed.
        if job.roles is not None:
            columns = [attribute.name for attribute in relation.schema.attributes]
            missing_names = [name for name in job.roles if name not in columns]
            if missing_names:
                suggestions = filter(
                    None, (nearest_names(name, columns, limit=1) for name in missing_names)
                )
                if job.declared is not None:
                    raise RuleWithoutColumn(
                        f"{relation.name} does not have all columns that have a rule; nothing was"
                        " published.",
                        detail="Missing: " + ", ".join(f'"{name}"' for name in missing_names) + ".",
                        hint=" ".join(
                            [
                                *suggestions,
                                "Ask its owner to declare these rules again, or to remove them.",
                            ]
                        ),
                    )
                raise TableChanged(
                    f"{relation.name} does not have all columns that have a role in the job file.",
                    detail="Missing: " + ", ".join(f'"{name}"' for name in missing_names) + ".",
                    hint=" ".join(
                        [*suggestions, "Write these names as in the table, or remove them."]
                    ),
                )
        for name in job.named_columns:
            # Raises ColumnNotFound.
            relation.attribute(name)
        # The type of a column of a CSV file may be in doubt.
        self.session.require_typed(job.named_columns)
        return relation

    def with_row_locator(self, relation: Relation, job: Job, names: Sequence[str]) -> Relation:
        """Return the relation with a row locator, after all checks.

        Raises the same errors as ``ports.Source``.
        """
        relation = self.session.catalog.with_row_locator(relation, job.key)
        if job.policy.nulls == "suppress":
            # Rows with a NULL in one of these columns are withheld.
            relation = replace(relation, non_null_columns=job.quasi_identifiers)
        relation = self.select_rows(relation, job, names)
        # The run groups or joins by these columns in SQL; the sets are those of ``also_k``.
        self.session.catalog.require_comparable_types(
            relation, [*job.by, *job.columns_in_sets, *job.key]
        )
        return relation

    def select_rows(self, relation: Relation, job: Job, names: Sequence[str]) -> Relation:
        """Apply the job's condition, after a check that these columns may be read."""
        self.session.catalog.require_readable(relation, names)
        return relation if job.where is None else self._apply_condition(relation, job, names)

    def _apply_condition(self, relation: Relation, job: Job, names: Sequence[str]) -> Relation:
        """Apply the job's condition, after a check that the database accepts it."""
        filtered = _filtered_relation(relation, job, names, str(job.where))
        # The filtered relation is a subquery, in which some databases rename columns.
        self.session.dialect.require_names_allowed_in_views(filtered.columns)
        try:
            self.session.rows(f"SELECT 1 FROM {filtered.quoted} AS s LIMIT 0")
        except DbanonError as error:
            # Databases reject a condition by DatabaseFailure itself or, for an unknown column, by
            # SourceChanged. Other subclasses, such as DatabaseBusy, have other causes.
            is_rejection = type(error) in (DatabaseFailure, SourceChanged)
            if isinstance(error, InsufficientRights | DatabaseFailure) and not is_rejection:
                raise
            raise InvalidParameter(
                "The database does not accept the condition in where.",
                detail=error.detail,
                hint="Write it in SQL over the columns of the table, as after WHERE. On PostgreSQL,"
                " functions outside pg_catalog need the name of their schema.",
            ) from None
        return replace(relation, selected_rows=filtered)

    def accepts_condition(self, relation: Relation, columns: Sequence[str], condition: str) -> bool:
        """Whether a condition is valid and uses only these columns.

        If it is not, some databases abort the transaction.
        """
        # Give the subquery an alias other than s, so that a condition on the whole row s fails.
        # The line breaks end a comment at the end of the condition.
        query = (
            f"SELECT 1 FROM (SELECT {quote_list(columns)} FROM {relation.name.quoted})"
            f" AS dbanon_known WHERE (\n{condition}\n) LIMIT 0"
        )
        try:
            self.session.rows(query)
        except DbanonError:
            return False
        return True

    def with_condition(
        self, relation: Relation, job: Job, names: Sequence[str], condition: str
    ) -> Relation:
        """Add a condition, SQL built by dbanon, to the condition of the job."""
        combined_condition = (
            condition if job.where is None else f"(\n{job.where}\n) AND {condition}"
        )
        filtered = _filtered_relation(relation, job, names, combined_condition)
        self.session.dialect.require_names_allowed_in_views(filtered.columns)
        return replace(relation, selected_rows=filtered)

    def describe_state(self, relation: Relation) -> JsonMapping:
        """Return the column types, and the database's write counters of the relation."""
        types = {a.name: a.sql_type for a in relation.schema.attributes}
        return {"types": types, **self.session.catalog.summarize_table_state(relation.name)}

    def pin(self, relation: Relation, names: Sequence[str]) -> Relation:
        """Pin the relation to the transaction's snapshot."""
        return self.session.pin(relation, names)

    def complete_attributes_from_values(
        self, relation: Relation, attributes: Sequence[Attribute]
    ) -> tuple[Attribute, ...]:
        """Find in the values what types leave open, such as a scale; raises MixedTypes."""
        return self.session.complete_attributes_from_values(relation, attributes)

    def load_hierarchy(self, column: str, spec: HierarchySpec, pulse: Pulse) -> Hierarchy:
        """Load a hierarchy from this database, with the caller's rights."""
        from dbanon.stores import hierarchies

        return hierarchies.resolve(self.session, spec, pulse)

    def count_zip_populations(self, table: str) -> dict[str, float]:
        """Sum the people by the first three digits of their ZIP codes, in SQL."""
        from dbanon.stores.zip_populations import count_zip_populations

        return count_zip_populations(self.session, table)

    def require_leaves(self, attribute: Attribute) -> None:
        """Refuse timestamps as leaves of a hierarchy: their text differs between databases."""
        if attribute.kind is Kind.TIMESTAMP:
            raise InvalidParameter(
                f'The privacy model of "{attribute.name}" has a hierarchy of timestamps.',
                hint="Cast the column to a date in a view, or set the distance of the model to"
                " ordered.",
            )

    def list_distinct_values(self, relation: Relation, attribute: Attribute) -> list[str]:
        """List the distinct non-NULL values of a column, in the column's order.

        Only values of the rows to read are listed.
        """
        [inspected_attribute] = self.session.complete_attributes_from_values(relation, [attribute])
        query = statements.distinct_values(
            relation.relation_to_read,
            attribute.name,
            self.session.dialect.text_of(inspected_attribute),
            relation.and_not_null_condition,
        )
        texts = {format_leaf(text, inspected_attribute) for (text,) in self.session.rows(query)}
        return sort_values(texts, attribute)

    def count(self, relation: Relation) -> int:
        """Count the rows, including those withheld because of a NULL."""
        query = f"SELECT count(*) FROM {relation.relation_to_read.quoted} AS s"
        return int(self.session.rows(query)[0][0])

    def count_totals(
        self, relation: Relation, person_columns: Sequence[Attribute], columns: Sequence[str]
    ) -> SourceCounts:
        """Count rows, persons and NULLs in SQL."""
        counts = [
            f"count(DISTINCT {self.session.dialect.value_of(person)})" for person in person_columns
        ]
        counts += [f"count(s.{quote(name)})" for name in columns]
        select_list = ", ".join(["count(*)", *counts])
        query = f"SELECT {select_list} FROM {relation.relation_to_read.quoted} AS s"
        n_rows, *results = map(int, self.session.rows(query)[0])
        null_counts = (n_rows - n_present for n_present in results[len(person_columns) :])
        totals = {"rows": n_rows} | ({"persons": results[0]} if person_columns else {})
        return SourceCounts(totals, dict(zip(columns, null_counts, strict=True)))

    def estimate_distinct_share(self, relation: Relation, names: Sequence[str]) -> float:
        """Estimate the share of distinct value combinations in these columns."""
        return estimate_distinct_share(self.session, relation, names)

    def digest(
        self, relation: Relation, names: Sequence[str], salt: int
    ) -> tuple[str | int, ...] | None:
        """Hash the rows; see ``digest.hash_columns``."""
        return digest.hash_columns(self.session, relation, names, salt)

    def profile(self, relation: Relation) -> Profile:
        """Profile all columns by counts, and detect forms of values, such as that of an IBAN."""
        attributes = relation.schema.attributes
        n_rows, columns = profile_columns(
            self.session,
            relation.relation_to_read,
            attributes,
            unique_names=self.session.catalog.find_unique_columns(relation),
        )
        forms = detect_forms(self.session, relation.relation_to_read, attributes)
        return Profile(
            n_rows, tuple(replace(column, form=forms[column.name]) for column in columns)
        )

    def find_identifier_columns(self, relation: Relation) -> dict[str, str]:
        """Find columns that look like person identifiers, with reasons to show users."""
        return find_identifier_columns(self.session, relation)

    def find_direct_identifiers(self, relation: Relation, names: Sequence[str]) -> dict[str, str]:
        """Find the columns among these that look like direct identifiers, with reason codes."""
        return find_direct_identifiers(self.session, relation, names)

    def count_spellings(self, relation: Relation, person: Attribute) -> dict[str, int]:
        """Count the distinct person identifiers by normalization, in SQL."""
        return count_spellings(self.session, relation, person)

    def count_classes_below_k(
        self, draft: PreparedRelease, partition: Partition, name: str
    ) -> tuple[int, int]:
        """Count the classes, and those with fewer than k values of a column, in SQL."""
        k = int(draft.job.policy.k)
        return count_classes_below_k(
            self.session, draft.relation, draft.microdata, partition, name, k
        )

    def count_withheld(self, relation: Relation) -> int:
        """Count the rows withheld because of a NULL."""
        return self.session.count_withheld(relation)

    def read(
        self, relation: Relation, roles: ColumnRoles, job: Job, progress: Progress
    ) -> Microdata:
        """Read the columns that have a role.

        Raises the errors of ``data.chunks.microdata_from_chunks``, such as DuplicateKeys.
        """
        memory = RecordMemory.of(
            job,
            roles.columns,
            spills=self.disk is not None,
            key_width=len(relation.required_locator.types),
            n_databases=self.session.n_databases,
        )
        if memory.spilled is not None and memory.limit is not None:
            # A large table takes long to read, so refuse it before.
            memory.require(self.count(relation) - self.count_withheld(relation))
        microdata = roles.assign_roles(
            self.session.read(
                relation,
                roles.columns,
                chunk_rows=job.chunk_rows,
                memory=memory,
                progress=progress,
                disk=self.disk,
                # Retained columns that are copied as the database sends them, without parsing.
                passthrough=roles.passthrough,
            )
        )
        if self.disk is not None:
            self.session.free_cache()
        # Privacy models without a hierarchy may use the order of a sensitive column's values.
        recoded_columns = {
            name: recode_in_value_order(
                self.session, relation.relation_to_read, relation.attribute(name), column
            )
            for name, column in microdata.sensitive.items()
            if name not in roles.hierarchy_columns
        }
        return replace(microdata, sensitive={**microdata.sensitive, **recoded_columns})

    def exact_totals(
        self,
        relation: Relation,
        microdata: Microdata,
        partition: Partition,
        attributes: Sequence[Attribute],
    ) -> dict[str, NDArray[np.object_]]:
        """Sum the attributes in each class by exact integer arithmetic in SQL."""
        return self.session.exact_totals(relation, microdata, partition, attributes)

    def read_retained_rows(
        self, relation: Relation, names: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[SqlRow]]]:
        """Yield row keys and rows in batches; see ``ports.Source``."""
        return self.session.read_rows(relation, names, chunk_rows)

    def read_quantile(self, relation: Relation, attribute: Attribute, share: float) -> float | None:
        """Return the smallest value that at least a share of a column's values do not exceed.

        None if all values are NULL.
        """
        column, rows = f"s.{quote(attribute.name)}", relation.relation_to_read.quoted
        [(n_values,)] = self.session.rows(
            f"SELECT count({column}) FROM {rows} AS s{relation.where_clause}"
        )
        if not n_values:
            return None
        offset = max(ceil(share * int(n_values)) - 1, 0)
        [(value,)] = self.session.rows(
            f"SELECT {column} FROM {rows} AS s WHERE {column} IS NOT NULL"
            f"{relation.and_not_null_condition} ORDER BY {column} LIMIT 1 OFFSET {offset}"
        )
        return float(value)

    def measure_dates(self, relation: Relation, attribute: Attribute) -> DateRange:
        """Measure the range of the dates in a column."""
        from dbanon.stores import sql_dates

        return sql_dates.measure_dates(self.session, relation, attribute)

    def read_person_tags(
        self, relation: Relation, roles: ColumnRoles, person: Attribute, key: PseudonymKey
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the code of each person, and the keyed hash of the person's identifier."""
        from dbanon.stores import sql_dates

        return sql_dates.read_person_tags(self.session, relation, roles, person, key)

    def has_padding(self, attribute: Attribute) -> bool:
        """Whether ``read_retained_rows`` pads the column's values with insignificant spaces."""
        return self.session.tags.has_padding(attribute)

    def count_distinct(self, draft: PreparedRelease, name: str) -> tuple[int, int]:
        """Count the released rows with a non-NULL value in a column, and the distinct texts."""
        session, text = self.session, self.session.dialect.text_of(draft.relation.attribute(name))
        rows = session.released_rows(draft.relation, draft.microdata, draft.release.partition)
        [(n_present, n_texts)] = session.rows(
            f"SELECT count(label), count(DISTINCT label) FROM (SELECT {text} AS label FROM {rows})"
            " AS labels"
        )
        return int(n_present), int(n_texts)

    def group_by_value(self, draft: PreparedRelease, name: str) -> ValueGroups:
        """Group the released rows by their value in a column, in SQL, without reading values.

        Raises
        ------
        RecountFailed : the groups do not add up to the released rows.
        """
        session, k = self.session, int(draft.job.policy.k)
        persons = [
            f"DISTINCT {session.dialect.value_of(person)}" for person in draft.roles.entity_columns
        ]
        is_rare_condition = f"count({', '.join(persons) or '*'}) < {k}"
        value = session.dialect.grouping_sql(draft.relation.attribute(name))
        # Also count, for each of these, the groups in which all rows have the same original value.
        quasi_identifiers = draft.microdata.attributes
        return self._group_rows(draft, name, value, quasi_identifiers, is_rare_condition)

    def group_by_original(
        self, draft: PreparedRelease, name: str, columns: Sequence[str]
    ) -> ValueGroups:
        """Group by the original value of a quasi-identifier.

        Raises the same errors as ``group_by_value``.
        """
        [value] = [
            self._original_value(draft, a) for a in draft.microdata.attributes if a.name == name
        ]
        attributes = [draft.relation.attribute(column) for column in columns]
        # The number of groups below k is not needed here, so the condition is never true.
        return self._group_rows(draft, name, value, attributes, is_rare_condition="1 = 0")

    def group_by_day(
        self, draft: PreparedRelease, name: str, columns: Sequence[str]
    ) -> ValueGroups:
        """Group the released rows by the original day in a column of dates or timestamps.

        Raises the same errors as ``group_by_value``.
        """
        value = self.session.dialect.day_of(draft.relation.attribute(name))
        attributes = [draft.relation.attribute(column) for column in columns]
        return self._group_rows(draft, name, value, attributes, is_rare_condition="1 = 0")

    def _group_rows(
        self,
        draft: PreparedRelease,
        name: str,
        value: str,
        compared_columns: Sequence[Attribute],
        is_rare_condition: str,
    ) -> ValueGroups:
        """Group the released rows by ``value``, and find groups with a single value of a column.

        Parameters
        ----------
        name : the column, for error messages.
        value : SQL of the value to group by.
        compared_columns : the columns to check for a single value within each group.
        is_rare_condition : SQL that is true for groups to be counted as rare: those below k.
        """
        session, partition = self.session, draft.release.partition
        rows = session.released_rows(draft.relation, draft.microdata, partition)
        rows += self._join_grouped_values(draft)
        results = []
        for batch in session.batch_columns(compared_columns):
            originals = [self._original_value(draft, attribute) for attribute in batch]
            query = statements.value_groups(rows, value, originals, is_rare_condition)
            cells = [[int(cell) for cell in row] for row in session.rows(query)]
            # The batches have the same rows, in any order.
            results.append(np.array(sorted(cells), np.int64).reshape(-1, 4 + len(batch)))
        # A result has one row per group size, and another one for the group of NULL. After these
        # four columns comes, for each compared column, how many groups have a single value of it.
        is_null, sizes, n_groups, n_rare_groups = results[0][:, :4].T
        require_all_counted(name, int(sizes @ n_groups), int(partition.sizes.sum()))
        single_value_counts = np.hstack([result[:, 4:] for result in results])
        has_value = is_null == 0
        return ValueGroups(
            sizes[has_value],
            n_groups[has_value],
            n_rare_groups[has_value],
            single_value_counts[has_value],
        )

    def _join_grouped_values(self, draft: PreparedRelease) -> str:
        """Build JOINs with the dictionaries of columns whose values were coded as groups."""
        grouped_names = {a.name for a in draft.microdata.attributes if a.groups is not None}
        return "".join(
            statements.join_values(position, self.session.dialect.value_of(attribute))
            for position, attribute in enumerate(draft.roles.columns)
            if attribute.name in grouped_names
        )

    def _original_value(self, draft: PreparedRelease, attribute: Attribute) -> str:
        """Build SQL for a column's original value, as its class sees it.

        That is a text for columns that are read as texts, and a number for columns that are coded
        before classes are made: the rank of the band, or the number of the group. The latter needs
        the JOINs of ``_join_grouped_values``.
        """
        if attribute.groups is not None:
            [(position, read_attribute)] = [
                (position, column)
                for position, column in enumerate(draft.roles.columns)
                if column.name == attribute.name
            ]
            table = quote(statements.values_table(position))
            codes_by_group: dict[str | None, list[int]] = {}
            for value, code in self.session.rows(f"SELECT value, code FROM {table}"):
                group = attribute.groups.group_of(value, is_number=read_attribute.nominal)
                codes_by_group.setdefault(group, []).append(int(code))
            return statements.code_groups(position, list(codes_by_group.values()))
        if attribute.bands is not None:
            return statements.band_ranks(f"s.{quote(attribute.name)}", attribute.bands)
        if attribute.kind.is_coded:
            return self.session.dialect.text_of(attribute)
        return f"s.{quote(attribute.name)}"


def _filtered_relation(
    relation: Relation, job: Job, names: Sequence[str], condition: str
) -> FilteredRelation:
    """Describe the rows that meet a condition, with the columns to read and those of row keys.

    Parameters
    ----------
    names : the columns to read or copy.
    """
    # Row keys are quoted columns, such as s."id", or unquoted system columns, such as s.ctid.
    key_expressions = [
        expression.removeprefix("s.") for expression in relation.required_locator.expressions
    ]
    key_columns = [
        expression[1:-1].replace('""', '"')
        for expression in key_expressions
        if expression.startswith('"')
    ]
    # A key map is a staging table that numbers the rows by the values of their key columns.
    columns = dict.fromkeys(
        [*names, *job.key, *relation.required_locator.key_map_columns, *key_columns]
    )
    # With a key map, the expressions are those of the map, not of the source's columns.
    system_columns = (
        ()
        if relation.required_locator.key_map_columns
        else tuple(expression for expression in key_expressions if expression.isidentifier())
    )
    name = relation.name
    return FilteredRelation(
        name.schema,
        name.name,
        condition,
        tuple(columns),
        system_columns,
        catalog=name.catalog,
        staging_table=name.staging_table,
    )


def read_rows(
    session: Session, relation: Relation, attributes: Sequence[Attribute], share: float = 1.0
) -> list[SqlRow]:
    """Read columns without a row key, in no particular order.

    Integers, decimals and floats are returned as floats, and all other values as texts.

    Parameters
    ----------
    share : the probability of each row to be read, 0 to 1.
    """
    expressions = ", ".join(
        f"CAST(s.{quote(attribute.name)} AS DOUBLE PRECISION)"
        if attribute.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)
        else session.dialect.text_of(attribute)
        for attribute in attributes
    )
    where = relation.where_clause
    if share < 1:
        random_number = session.dialect.random_number
        where = f" WHERE {random_number} < {share:.9f}{relation.and_not_null_condition}"
    return session.rows(f"SELECT {expressions} FROM {relation.relation_to_read.quoted} AS s{where}")


def recode_in_value_order(
    session: Session, relation: RelationName, attribute: Attribute, column: CodedColumn
) -> CodedColumn:
    """Recode a column by the order of its values; numbers sort differently from their texts.

    Texts of the same number become one value with several texts.
    """
    if not attribute.kind.is_numeric:
        return column
    query = statements.value_ranks(relation, attribute.name, session.dialect.text_of(attribute))
    ranks = {text: int(rank) for text, rank in session.rows(query)}
    # Equal numbers have the same rank. The first of their texts stands for them, because it is
    # inserted last.
    text_of_rank = {ranks[text]: text for text in reversed(column.values)}
    index_of_rank = {rank: index for index, rank in enumerate(sorted(text_of_rank))}
    codes_by_value = [index_of_rank[ranks[text]] for text in column.values]
    # The last entry maps -1, the code of NULL.
    codes = np.append(np.array(codes_by_value, np.int32), np.int32(-1))[column.codes]
    # If some numbers have several texts, keep the codes of the texts that readers see.
    text_codes = column.codes if len(text_of_rank) < len(column.values) else None
    return CodedColumn(
        codes, tuple(text_of_rank[rank] for rank in sorted(text_of_rank)), text_codes
    )
