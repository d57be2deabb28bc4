"""A data frame as the source of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dbanon.advice.forms import MAX_EXAMINED_VALUES, can_hold_identifiers, find_form_of_texts
from dbanon.advice.persons import (
    HEAD_ROWS,
    PROBED_ROWS,
    SEARCHED_ROWS,
    candidate_identifiers,
    find_constant_attributes,
    find_person_identifiers,
)
from dbanon.advice.profile import ColumnProfile, Profile
from dbanon.advice.roles import find_identifiers
from dbanon.data.chunks import encode_texts
from dbanon.data.date_range import DateRange, date_limits, units_per_day
from dbanon.data.microdata import CodedColumn, ColumnRoles, Microdata, take_weights
from dbanon.data.partition import Partition
from dbanon.data.schema import CASEFOLD, Attribute, Kind, Schema, normalize_spelling
from dbanon.data.types import JsonMapping, SqlRow
from dbanon.errors import DbanonError, InvalidParameter, UnsupportedType
from dbanon.hierarchy.edges import Pulse
from dbanon.hierarchy.leaves import list_column_texts
from dbanon.hierarchy.spec import HierarchySpec, build
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.job import Job
from dbanon.job.pseudonym import PseudonymKey
from dbanon.release.attribute_disclosure import ValueGroups, group_by_value
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName
from dbanon.stores.frame.display import display_codes
from dbanon.stores.frame.microdata import (
    attribute_of,
    dates_to_numbers,
    encode_persons,
    microdata_from_frame,
    releasable_rows,
    require_columns,
    require_texts,
    unscaled_integer,
)
from dbanon.stores.ports import PreparedRelease, Progress, SourceCounts

# Name and kind of the relation that describes a frame.
FRAME_NAME, FRAME_KIND = "data frame", "frame"


@dataclass(frozen=True, eq=False)
class FrameSource:
    """The rows of a data frame, in its order.

    A record's key is the position of its row in the frame, counted from 0.
    """

    frame: pd.DataFrame

    @property
    def copied_rows_summary(self) -> Mapping[str, object]:
        """An empty mapping, since rows are never copied from another source."""
        return {}

    def describe(self, job: Job) -> Relation:
        """Describe the frame as a relation; columns that the job does not use get the kind OTHER.

        Raises
        ------
        ColumnNotFound, InvalidParameter : the frame has no column, or two columns, of a name.
        UnsupportedType : a column to read has an unsupported type.
        """
        person_columns = job.guarantee.entity_columns
        require_columns(self.frame, [*job.named_columns, *person_columns])
        rows = releasable_rows(self.frame, job.quasi_identifiers, job.policy.nulls)
        names_to_read = {
            *job.quasi_identifiers,
            *person_columns,
            *job.columns_in_sets,
            *job.pseudonyms,
            *job.design_weights,
        }
        for model in job.policy.models:
            names_to_read.add(model.attribute)
        attributes = [
            _with_order(attribute_of(str(name), rows[name]), job.policy.orders)
            if name in names_to_read
            else Attribute(str(name), Kind.OTHER)
            for name in self.frame.columns
        ]
        non_null_columns = job.quasi_identifiers if job.policy.nulls == "suppress" else ()
        return Relation(
            RelationName(None, FRAME_NAME),
            Schema(tuple(attributes)),
            FRAME_KIND,
            estimated_rows=len(self.frame),
            non_null_columns=non_null_columns,
        )

    def with_row_locator(self, relation: Relation, job: Job, names: Sequence[str]) -> Relation:
        """Return the relation unchanged: a frame's rows are identified by position."""
        return relation

    def describe_state(self, relation: Relation) -> JsonMapping:
        """Return an empty mapping: frames have no ledger."""
        return {}

    def pin(self, relation: Relation, names: Sequence[str]) -> Relation:
        """Return the relation unchanged: a frame does not change during the run."""
        return relation

    def complete_attributes_from_values(
        self, relation: Relation, attributes: Sequence[Attribute]
    ) -> tuple[Attribute, ...]:
        """Describe the attributes of the kind OTHER, which ``describe`` has skipped."""
        return tuple(
            attribute_of(a.name, self.frame[a.name]) if a.kind is Kind.OTHER else a
            for a in attributes
        )

    def load_hierarchy(self, column: str, spec: HierarchySpec, pulse: Pulse) -> Hierarchy:
        """Raise an error: a frame has no tables, and no ledger with stored hierarchies.

        Parameters
        ----------
        pulse : would be called repeatedly while loading, to stop it by an exception.

        Raises
        ------
        InvalidParameter : always, since a hierarchy cannot be built without values.
        """
        return build(spec, (), column, pulse)

    def count_zip_populations(self, table: str) -> dict[str, float]:
        """Raise an error: a frame has no table of populations; raises InvalidParameter."""
        raise InvalidParameter(
            "A data frame has no table of the populations of ZIP codes.",
            hint="Release from a database, or leave out `zip_population` and the ZIP codes.",
        )

    def require_leaves(self, attribute: Attribute) -> None:
        """Do nothing: only databases refuse timestamps, whose text differs between databases."""

    def list_distinct_values(self, relation: Relation, attribute: Attribute) -> list[str]:
        """Return the distinct non-NULL values of the releasable rows, in the column's order."""
        microdata = microdata_from_frame(self._rows(relation), [attribute.name])
        return list_column_texts(microdata, microdata.attributes[0])

    def count(self, relation: Relation) -> int:
        """Count the rows."""
        return len(self.frame)

    def count_totals(
        self, relation: Relation, person_columns: Sequence[Attribute], columns: Sequence[str]
    ) -> SourceCounts:
        """Count the rows, the persons, and each column's NULLs."""
        nulls = {name: int(self.frame[name].isna().sum()) for name in columns}
        totals = {"rows": len(self.frame)}
        if person_columns:
            totals["persons"] = int(self.frame[person_columns[0].name].nunique())
        return SourceCounts(totals, nulls)

    def digest(
        self, relation: Relation, names: Sequence[str], salt: int
    ) -> tuple[str | int, ...] | None:
        """Return None: frames have no digest."""
        return None

    def profile(self, relation: Relation) -> Profile:
        """Count the values of each column, and detect the form of its texts."""
        names = list(map(str, self.frame.columns))
        require_columns(self.frame, names)
        profiles = [_profile_column(name, self.frame[name]) for name in names]
        profiles_with_forms = (
            replace(profile, form=_detect_form(profile, self.frame[profile.name]))
            for profile in profiles
        )
        return Profile(len(self.frame), tuple(profiles_with_forms))

    def find_identifier_columns(self, relation: Relation) -> dict[str, str]:
        """Return the columns that look like person identifiers in the first rows, with reasons."""
        first_rows = self.frame.iloc[:HEAD_ROWS]
        names: list[object] = list(self.frame.columns)
        attributes = []
        for name in names:
            # Skip unsupported types, and names that are ambiguous or not text.
            with suppress(DbanonError):
                if isinstance(name, str) and names.count(name) == 1:
                    attributes.append(_attribute_or_other(name, first_rows[name]))
        codes_by_name = {
            name: _encode_values(self.frame[name].iloc[:SEARCHED_ROWS])
            # Columns whose names suggest an attribute that is constant for a person.
            for name in find_constant_attributes(attributes)
        }
        # The first function says how often rows agree in a column by chance, the second how often
        # they agree if they share a value of the candidate.
        return find_person_identifiers(
            attributes,
            [_profile_column(name, first_rows[name]) for name in candidate_identifiers(attributes)],
            lambda name: _share_of_equal_pairs(codes_by_name[name][:HEAD_ROWS]),
            lambda profile: _dependency_counts(
                _encode_values(self.frame[profile.name].iloc[:SEARCHED_ROWS]),
                list(codes_by_name.values()),
            ),
        )

    def find_direct_identifiers(self, relation: Relation, names: Sequence[str]) -> dict[str, str]:
        """Return the columns that look like identifiers in the first rows, with reasons."""
        profiles = [_profile_column(name, self.frame[name].iloc[:HEAD_ROWS]) for name in names]
        return find_identifiers(
            replace(profile, form=_detect_form(profile, self.frame[profile.name]))
            for profile in profiles
        )

    def count_spellings(self, relation: Relation, person: Attribute) -> dict[str, int]:
        """Count the persons if their identifiers are compared under each normalization."""
        series = self._rows(relation)[person.name]
        counts = {}
        for normalization in ("", person.normalize, CASEFOLD):
            codes = encode_persons(series, normalization)
            counts[normalization] = int(codes.max(initial=-1)) + 1
        return counts

    def count_classes_below_k(
        self, draft: PreparedRelease, partition: Partition, name: str
    ) -> tuple[int, int]:
        """Count all classes, and the classes with fewer than k distinct values in a column.

        Each NULL counts as a distinct value.
        """
        # The key of a record is its position in the frame.
        codes = _encode_values(self.frame[name].iloc[draft.microdata.keys[partition.members, 0]])
        classes = partition.labels[partition.members].astype(np.int64)
        # Give each NULL a new code of its own.
        is_null = codes < 0
        codes[is_null] = codes.max(initial=0) + 1 + np.arange(int(is_null.sum()))
        pairs = np.unique(np.column_stack((classes, codes)), axis=0)
        n_values = np.bincount(pairs[:, 0], minlength=partition.n_classes)
        return partition.n_classes, int((n_values < int(draft.job.policy.k)).sum())

    def read(
        self, relation: Relation, roles: ColumnRoles, job: Job, progress: Progress
    ) -> Microdata:
        """Read the columns that have a role, from the rows that may be released."""
        rows = self._rows(relation)
        names = [attribute.name for attribute in roles.quasi_identifiers]
        require_texts(rows, [attribute.name for attribute in roles.sensitive])
        microdata = microdata_from_frame(
            rows,
            names,
            by=[attribute.name for attribute in roles.by],
            orders=job.policy.orders,
            kinds=job.policy.kinds_as_read,
        )
        for attribute in roles.weights:
            weights = take_weights(microdata_from_frame(rows, [attribute.name]), attribute.name)
            microdata = replace(microdata, weights=weights)
        keys = microdata.keys
        if len(rows) != len(self.frame):
            is_releasable = self.frame[list(relation.non_null_columns)].notna().all(axis=1)
            keys = np.flatnonzero(is_releasable.to_numpy()).astype(np.int64).reshape(-1, 1)
        return replace(
            microdata,
            keys=keys,
            # The function is not called, and the result is None, if k counts rows.
            entities=roles.entities(
                lambda column: encode_persons(rows[column.name], column.normalize)
            ),
            sensitive={
                attribute.name: encode_column(
                    rows[attribute.name], as_texts=attribute.name in roles.hierarchy_columns
                )
                for attribute in roles.sensitive
            },
            n_withheld=len(self.frame) - len(rows),
        )

    def exact_totals(
        self,
        relation: Relation,
        microdata: Microdata,
        partition: Partition,
        attributes: Sequence[Attribute],
    ) -> Mapping[str, NDArray[np.object_]]:
        """Sum the values in each class as Python integers, which do not overflow."""
        positions = microdata.keys[:, 0]
        return {
            a.name: _exact_totals(a, self.frame[a.name].iloc[positions], partition)
            for a in attributes
        }

    def read_retained_rows(
        self, relation: Relation, names: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[SqlRow]]]:
        """Yield batches of m rows: their positions, int64 (m, 1), and a tuple of values for each.

        NULL is None.
        """
        columns = self.frame[list(names)].astype(object)
        columns = columns.where(columns.notna(), None)
        for start in range(0, len(columns), chunk_rows):
            batch = columns.iloc[start : start + chunk_rows]
            keys = np.arange(start, start + len(batch), dtype=np.int64).reshape(-1, 1)
            yield keys, list(batch.itertuples(index=False, name=None))

    def read_quantile(self, relation: Relation, attribute: Attribute, share: float) -> float | None:
        """Return the smallest value that at least a share of a column's values do not exceed."""
        values = sorted(map(float, self._rows(relation)[attribute.name].dropna()))
        return values[max(ceil(share * len(values)) - 1, 0)] if values else None

    def measure_dates(self, relation: Relation, attribute: Attribute) -> DateRange:
        """Measure the range of the dates in a column."""
        limits = date_limits(attribute)
        numbers = dates_to_numbers(attribute, self.frame[attribute.name])
        days = numbers[~np.isnan(numbers)] / units_per_day(attribute)
        first_day, last_day = (float(days.min()), float(days.max())) if len(days) else (0.0, 0.0)
        return DateRange(len(days), int(np.isfinite(days).sum()), first_day, last_day, limits)

    def read_person_tags(
        self, relation: Relation, roles: ColumnRoles, person: Attribute, key: PseudonymKey
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the code of each person, and the keyed hash of the person's identifier."""
        series = self._rows(relation)[person.name]
        require_texts(series.to_frame(), [person.name])
        codes = encode_persons(series, person.normalize)
        for code, value in dict(zip(codes.tolist(), series, strict=True)).items():
            text = str(value)
            yield code, key.offset_tag(normalize_spelling(text, person.normalize))

    def group_by_day(
        self, draft: PreparedRelease, name: str, columns: Sequence[str]
    ) -> ValueGroups:
        """Group the released rows by the original day in a column of dates or timestamps."""
        positions = draft.microdata.keys[draft.release.partition.members, 0]
        attribute = draft.relation.attribute(name)
        numbers = dates_to_numbers(attribute, self.frame[name].iloc[positions])
        codes = _encode_values(pd.Series(np.floor(numbers / units_per_day(attribute))))
        column_codes = [_encode_values(self.frame[column].iloc[positions]) for column in columns]
        return group_by_value(codes, column_codes, k=0)

    def has_padding(self, attribute: Attribute) -> bool:
        """Return False: a frame's values are never padded."""
        return False

    def count_distinct(self, draft: PreparedRelease, name: str) -> tuple[int, int]:
        """Count the released rows with a value in a column, and the values' distinct texts."""
        positions = draft.microdata.keys[draft.release.partition.members, 0]
        values = self.frame[name].iloc[positions].dropna()
        return len(values), values.map(str).nunique()

    def group_by_value(self, draft: PreparedRelease, name: str) -> ValueGroups:
        """Group the released rows by their value in a column."""
        microdata, release = draft.microdata, draft.release
        records = release.partition.members
        originals = draft.originals
        original_codes = [originals.codes(column)[records] for column in originals.names]
        persons = None if microdata.entities is None else microdata.entities[records]
        codes = _encode_values(self.frame[name].iloc[microdata.keys[records, 0]])
        return group_by_value(codes, original_codes, int(draft.job.policy.k), persons)

    def group_by_original(
        self, draft: PreparedRelease, name: str, columns: Sequence[str]
    ) -> ValueGroups:
        """Group the released rows by their original value in a quasi-identifier.

        Parameters
        ----------
        columns : the columns whose values are compared within each group.
        """
        microdata, release = draft.microdata, draft.release
        records = release.partition.members
        positions, is_valid = microdata.keys[records, 0], microdata.valid_column(name)
        codes = draft.originals.codes(name)[records]
        if is_valid is not None:
            codes = np.where(is_valid[records], codes, -1)
        column_codes = [_encode_values(self.frame[column].iloc[positions]) for column in columns]
        # The number of groups below k is not needed here; with k = 0, there are none.
        return group_by_value(codes, column_codes, k=0)

    def _rows(self, relation: Relation) -> pd.DataFrame:
        """Return the rows that may be released."""
        if not relation.non_null_columns:
            return self.frame
        return releasable_rows(self.frame, relation.non_null_columns, "suppress")


def _attribute_or_other(name: str, series: pd.Series[Any]) -> Attribute:
    """Describe a column; an unsupported type gets the kind OTHER."""
    try:
        return attribute_of(name, series)
    except UnsupportedType:
        return Attribute(name, Kind.OTHER, sql_type=str(series.dtype))


def _profile_column(name: str, series: pd.Series[Any]) -> ColumnProfile:
    """Count the values of a column; an unsupported type gets the kind OTHER."""
    attribute = _attribute_or_other(name, series)
    values = series[series.notna()]
    n_distinct = int(_encode_values(values).max(initial=-1)) + 1
    mean_length = share_with_spaces = 0.0
    if attribute.kind is Kind.CATEGORY and len(values):
        # Do not use pandas' text type: for a lone surrogate it raises an error that quotes the
        # value.
        texts = [str(value) for value in values.astype(object)]
        mean_length = sum(map(len, texts)) / len(texts)
        share_with_spaces = sum(" " in text for text in texts) / len(texts)
    return ColumnProfile(
        attribute,
        n_non_null=len(values),
        n_distinct=n_distinct,
        mean_length=mean_length,
        multiword_share=share_with_spaces,
    )


def _detect_form(profile: ColumnProfile, series: pd.Series[Any]) -> str:
    """Return what the first values look like, such as e-mail addresses; empty if unknown."""
    if not can_hold_identifiers(profile.attribute):
        return ""
    return find_form_of_texts(map(str, series.dropna().iloc[:MAX_EXAMINED_VALUES].unique()))


def _share_of_equal_pairs(codes: NDArray[np.int64]) -> float:
    """Return the share of pairs of rows that have equal values; rows with NULL are ignored.

    Parameters
    ----------
    codes : int64 (n,), the value of each row as a code; -1 for NULL.
    """
    counts = np.bincount(codes[codes >= 0])
    n_rows = int(counts.sum())
    return (int(counts @ counts) - n_rows) / (n_rows * (n_rows - 1)) if n_rows > 1 else 1.0


def _dependency_counts(
    identifier_codes: NDArray[np.int64], other_codes: Sequence[NDArray[np.int64]]
) -> list[list[int]]:
    """Count the values of other columns within the rows that share an identifier value.

    Returns a list for each repeated value, for ``find_person_identifiers``. The list has two
    numbers for each other column: the number of its non-NULL values in the rows with this
    identifier, and how many of these values are distinct. Only the identifiers of the first
    ``PROBED_ROWS`` rows are examined.

    Parameters
    ----------
    identifier_codes : int64 (n,), the identifier of each row as a code; -1 for NULL.
    other_codes : int64 (n,) for each other column, its values as codes; -1 for NULL.
    """
    if not other_codes:
        return []
    first_codes = identifier_codes[:PROBED_ROWS]
    rows = np.flatnonzero(np.isin(identifier_codes, first_codes[first_codes >= 0]))
    _, groups = np.unique(identifier_codes[rows], return_inverse=True)
    group_sizes = np.bincount(groups)
    count_columns = []
    for column_codes in other_codes:
        codes = column_codes[rows]
        is_valid = codes >= 0
        valid_groups, n_codes = groups[is_valid], int(codes.max(initial=0)) + 1
        # Number the pairs of group and code, so that equal pairs are counted once.
        groups_of_distinct_values = np.unique(valid_groups * n_codes + codes[is_valid]) // n_codes
        count_columns += [
            np.bincount(group_ids, minlength=len(group_sizes))
            for group_ids in (valid_groups, groups_of_distinct_values)
        ]
    counts: list[list[int]] = np.column_stack(count_columns)[group_sizes > 1].tolist()
    return counts


def _with_order(attribute: Attribute, orders: Mapping[str, Sequence[str]]) -> Attribute:
    """Return a categorical attribute with its order from ``orders``; others stay unchanged."""
    if attribute.kind is not Kind.CATEGORY or not orders.get(attribute.name):
        return attribute
    return replace(attribute, order=tuple(orders[attribute.name]))


def encode_column(series: pd.Series[Any], *, as_texts: bool) -> CodedColumn:
    """Encode each value of a column as its position among the sorted distinct values.

    Parameters
    ----------
    as_texts : whether to sort by the text of the values, and to give each text a code. If False,
        the values are sorted themselves, and values that are equal but displayed differently, such
        as the decimals 7.5 and 7.50, have one code.
    """
    if as_texts:
        is_valid = series.notna().to_numpy()
        texts = np.full(len(series), None, object)
        texts[is_valid] = [str(value) for value in series[is_valid]]
        return CodedColumn(*encode_texts(texts))
    if isinstance(series.dtype, pd.CategoricalDtype) and not series.dtype.ordered:
        # Unordered categories have an arbitrary order, which differs in the release.
        series = series.astype(series.dtype.categories.dtype)
    values = pd.Index(series.dropna().unique()).sort_values()
    codes = values.get_indexer(series).astype(np.int32)
    return CodedColumn(codes, tuple(str(value) for value in values), display_codes(series))


def _exact_totals(
    attribute: Attribute, series: pd.Series[Any], partition: Partition
) -> NDArray[np.object_]:
    """Sum a column by class, in units of 10**-scale, as Python integers, object (n_classes,).

    NULL counts as 0.

    Parameters
    ----------
    series : (n,), the value of each record.
    """
    values = series
    if attribute.kind is Kind.TIMESTAMP:
        if attribute.has_time_zone:
            values = series.dt.tz_convert("UTC").dt.tz_localize(None)
        microseconds = values.to_numpy("datetime64[us]").astype(np.int64)
        integers = (microseconds // 10 ** (6 - attribute.scale)).astype(object)
    elif attribute.kind is Kind.DECIMAL:
        is_valid = series.notna().to_numpy()
        integers = np.zeros(len(series), object)
        integers[is_valid] = np.array(
            [unscaled_integer(value, attribute.scale) for value in series[is_valid]], object
        )
    else:
        integers = values.to_numpy(object)
    integers[series.isna().to_numpy()] = 0
    # Python integers do not overflow, and reduceat adds them without converting them. ``members``
    # has the records class by class, and ``starts`` the index at which each class begins there.
    python_integers = np.array([int(value) for value in integers[partition.members]], object)
    return np.asarray(np.add.reduceat(python_integers, partition.starts), object)


def _encode_values(series: pd.Series[Any]) -> NDArray[np.int64]:
    """Encode values as codes, int64 (n,); -1 for NULL. Unhashable values are compared as text."""
    try:
        codes, _ = pd.factorize(series)
    except TypeError:
        codes, _ = pd.factorize(series.map(str, na_action="ignore"))
    return codes.astype(np.int64)
