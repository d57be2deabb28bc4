"""A data frame as the target of a run: a new frame, returned only after it has been verified."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray, AnyDtype
from dbanon.data.bands import CopyCoding
from dbanon.data.counts import (
    ClassValueCounts,
    CodedCounts,
    CountRequests,
    Counts,
    EntityCount,
    JointHistories,
    Recount,
)
from dbanon.data.date_range import units_per_day
from dbanon.data.schema import Attribute, Kind
from dbanon.data.types import JsonMapping
from dbanon.errors import InvalidParameter
from dbanon.job.job import Job
from dbanon.ledger.source_history import NO_HISTORY, EarlierRelease, SourceHistory
from dbanon.measures.agreement import MISSING_CODE, count_fewest_matches, number_distinct_rows
from dbanon.recoding import GENERALIZED, RANGE, ReleasedColumn
from dbanon.release.alignment import INPUT, SHUFFLED
from dbanon.release.attribute_disclosure import DisclosiveColumn
from dbanon.release.homogeneity import ClassHomogeneity
from dbanon.release.linkage import count_unique_profiles
from dbanon.release.report import Report
from dbanon.sessions.base import Output, Relation, passthrough_error, random_order
from dbanon.sessions.names import RelationName
from dbanon.stores.copied_rows import code_value
from dbanon.stores.frame.conversion import mark_row_order
from dbanon.stores.frame.display import group_by_display
from dbanon.stores.frame.microdata import attribute_of, dates_to_numbers, to_python_objects
from dbanon.stores.frame.source import FRAME_KIND, FRAME_NAME, FrameSource, encode_column
from dbanon.stores.ports import LastCounts, PreparedRelease, Progress, Source, StagedRelease

if TYPE_CHECKING:
    import pyarrow as pa
    from pandas.api.extensions import ExtensionDtype


def without_unused_categories(series: pd.Series[Any]) -> pd.Series[Any]:
    """Drop the categories that no row has, in a categorical column.

    Ordered categories keep their order. Others are reordered by first occurrence in the release,
    since the old order may reveal the order of the original rows.
    """
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        codes, used_codes = _drop_unused_codes(
            series.cat.codes.to_numpy(), is_ordered=bool(dtype.ordered)
        )
        categories = dtype.categories.take(used_codes).rename(None)
        categorical = pd.Categorical.from_codes(codes, categories=categories, ordered=dtype.ordered)
        result: pd.Series[Any] = pd.Series(categorical, index=series.index)
        return result
    if isinstance(dtype, pd.ArrowDtype) and hasattr(dtype.pyarrow_dtype, "value_type"):
        return _without_unused_arrow_categories(series, dtype.pyarrow_dtype)
    return series


def _without_unused_arrow_categories(
    series: pd.Series[Any], arrow_type: pa.DataType
) -> pd.Series[Any]:
    """Drop the unused categories of an Arrow dictionary column; other types stay unchanged."""
    import pyarrow as pa

    if not pa.types.is_dictionary(arrow_type):
        return series
    chunked_array = series.array.__arrow_array__()
    array = chunked_array.unify_dictionaries().combine_chunks()
    old_codes = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    codes, used_codes = _drop_unused_codes(old_codes, is_ordered=bool(arrow_type.ordered))
    indices = pa.array(codes, arrow_type.index_type, mask=codes < 0)
    dictionary = array.dictionary.take(pa.array(used_codes))
    new_array = pa.DictionaryArray.from_arrays(indices, dictionary, ordered=arrow_type.ordered)
    result: pd.Series[Any] = pd.Series(pd.arrays.ArrowExtensionArray(new_array), index=series.index)
    return result


def _drop_unused_codes(
    codes: NDArray[np.integer], *, is_ordered: bool
) -> tuple[NDArray[np.int64], NDArray[np.integer]]:
    """Number the codes that occur anew, without gaps and from 0; NULL keeps its code -1.

    Returns the new code of each row, and the old code of each new one.

    Parameters
    ----------
    codes : integers, (n,).
    is_ordered : keep the order of the codes; otherwise they are ordered by first occurrence.
    """
    old_codes, first_rows, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.arange(len(old_codes)) if is_ordered else np.argsort(first_rows)
    order = order[old_codes[order] >= 0]
    new_codes = np.full(len(old_codes), -1)
    new_codes[order] = np.arange(len(order))
    return new_codes[inverse.reshape(-1)], old_codes[order]


def generalized_column(
    source: pd.Series[Any],
    values: AnyArray,
    is_missing: NDArray[np.bool_] | None,
    row_classes: NDArray[np.int32],
) -> pd.Series[Any]:
    """Build a column of generalized labels, in the source column's type if possible.

    Text columns keep their type; type ``object`` becomes pandas' text type. Categorical columns
    stay categorical: with the source's categories, in their order, if every label is one of them,
    and otherwise with the labels as categories. Integers and booleans keep their type if every
    label is a value of the source column. All other columns become text of type ``object``.

    Parameters
    ----------
    source : the original values of the released rows.
    values, is_missing : (n_classes,), the label of each class, and whether it is NULL.
    row_classes : int32 (r,), the class of each row.
    """
    texts = values.astype(object)
    if is_missing is not None:
        texts[is_missing] = None
    source_dtype = source.dtype
    is_categorical = isinstance(source_dtype, pd.CategoricalDtype)
    dtype: Any = source_dtype if isinstance(source_dtype, pd.StringDtype) else object
    if pd.api.types.is_object_dtype(source_dtype):
        # Never ``object``, which would reveal that a withheld row has a value that is not text.
        dtype = pd.Series(["text"]).dtype
    if (
        is_categorical
        or pd.api.types.is_integer_dtype(source_dtype)
        or pd.api.types.is_bool_dtype(source_dtype)
    ):
        values_by_text = {str(value): value for value in source.dropna().unique()}
        if {text for text in texts if text is not None} <= values_by_text.keys():
            texts = np.array([values_by_text.get(text) for text in texts], object)
            dtype = source_dtype if is_missing is None else _nullable(source_dtype)
        elif is_categorical:
            dtype = "category"
    class_labels: pd.Series[Any] = pd.Series(texts, dtype=object).astype(dtype)
    column = class_labels.iloc[row_classes].reset_index(drop=True)
    if dtype == "category":
        # Keep the labels in sorted order; drop those that only withheld classes have.
        return column.cat.remove_unused_categories()
    return without_unused_categories(column)


@dataclass(frozen=True, eq=False)
class StagedFrameRelease(StagedRelease):
    """A release in a new frame, before it is verified.

    Parameters
    ----------
    frame : the released rows.
    records : int64 (r,), the record of each row.
    """

    frame: pd.DataFrame
    records: NDArray[np.int64]


class FrameTarget:
    """Builds the released frame, and provides it as ``released`` after it has been verified.

    Parameters
    ----------
    row_order : ``input`` keeps the order and the index of the source's rows; ``shuffled`` gives
        them a random order and a new index.

    Attributes
    ----------
    released : the released frame; None before the release is published.
    source_positions : int64 (r,), the position of each released row in the source; None before the
        release is published.
    """

    released: pd.DataFrame | None = None
    source_positions: NDArray[np.int64] | None = None

    def __init__(self, row_order: str = SHUFFLED) -> None:
        self._row_order = row_order

    def plan(self, job: Job, release_id: str) -> Output:
        """Describe the output; raises InvalidParameter if the job asks for a range type."""
        if job.policy.intervals == RANGE:
            raise _ranges_error()
        name = RelationName(None, FRAME_NAME)
        return Output(
            name=name, relation=name, staging_name=name, kind=FRAME_KIND, release_id=release_id
        )

    def find_earlier_releases(
        self, source: Source, relation: Relation, source_state: JsonMapping
    ) -> SourceHistory:
        """Return an empty history: frames have no ledger."""
        return NO_HISTORY

    def joint_histories(
        self, staged_release: StagedFrameRelease, earlier: Sequence[EarlierRelease], k: int
    ) -> JointHistories | None:
        """Return None: frames have no ledger."""
        return None

    def last_types(self, job: Job, source: RelationName) -> Mapping[str, str]:
        """Return an empty mapping: frames have no ledger."""
        return {}

    def last_counts(
        self, job: Job, source: RelationName, output: RelationName
    ) -> LastCounts | None:
        """Return None: frames have no ledger."""
        return None

    def require_ranges(self, attribute: Attribute) -> None:
        """Raise InvalidParameter, since pandas has no type for these ranges."""
        raise _ranges_error()

    def copies_from(self, source: Source) -> bool:
        """Return False for frames, whose columns are already in this process."""
        return not isinstance(source, FrameSource)

    def require_type(self, attribute: Attribute) -> None:
        """Do nothing: a frame holds values of any type."""

    def require_passthrough(
        self, source: Source, relation: Relation, columns: Sequence[Attribute]
    ) -> None:
        """Raise InvalidParameter: a frame's values are already Python objects of this process."""
        raise passthrough_error()

    def write(
        self, draft: PreparedRelease, source: Source, progress: Progress
    ) -> StagedFrameRelease:
        """Build the released rows; raises InvalidParameter if column names would repeat."""
        assert isinstance(source, FrameSource)
        records = np.flatnonzero(draft.release.partition.labels >= 0)
        if self._row_order != INPUT:
            records = records[random_order(len(records))]
        released = _released_frame(source.frame, draft, records)
        if self._row_order == INPUT:
            released.index = source.frame.index.take(draft.microdata.keys[records, 0])
        return StagedFrameRelease(draft, released, records)

    def count(self, staged_release: StagedFrameRelease, requests: CountRequests) -> Counts:
        """Count as requested, by grouping rows with equal values."""
        frame = staged_release.frame
        recount = partial(_recount, frame, null_agrees=requests.null_agrees)
        rows = requests.recount_classes(recount)
        column_set_counts = tuple(map(recount, requests.further_sets))
        if not (requests.entity_columns or requests.sensitive):
            return Counts(rows, further_sets=column_set_counts)
        # Values that are displayed differently but equal in Python, such as 1 and 1.0, are in
        # different groups, since readers of the release can distinguish them.
        classes = group_by_display(frame, requests.columns).ngroup().to_numpy(np.int64)
        entities = staged_release.draft.microdata.entities
        # ``ClassValueCounts`` may count a pair of class and value in several entries. So make each
        # row an entry with the count 1.
        one_per_row = np.ones(len(frame), np.int64)
        value_counts = {}
        for name in requests.sensitive:
            column = encode_column(frame[name], as_texts=name in requests.hierarchy_columns)
            value_counts[name] = ClassValueCounts(classes, column, one_per_row)
        persons = {}
        for name in requests.entity_columns:
            assert entities is not None
            row_entities = entities[staged_release.records]
            person_counts_of_sets = []
            for columns in requests.further_sets:
                set_classes = group_by_display(frame, columns).ngroup().to_numpy(np.int64)
                person_counts_of_sets.append(
                    _count_persons(set_classes, row_entities, value_counts={})
                )
            persons[name] = replace(
                _count_persons(classes, row_entities, value_counts),
                further_sets=tuple(person_counts_of_sets),
            )
        return Counts(rows, persons, value_counts=value_counts, further_sets=column_set_counts)

    def require_pseudonyms(self, source: Source) -> None:
        """Do nothing: Python computes the pseudonyms."""

    def count_distinct(self, staged_release: StagedFrameRelease, name: str) -> tuple[int, int]:
        """Count the released rows that have a value in a column, and the distinct values."""
        values = staged_release.frame[name].dropna()
        return len(values), values.nunique()

    def count_coded(
        self, staged_release: StagedFrameRelease, name: str, coding: CopyCoding
    ) -> CodedCounts:
        """Count the written values of a coded copy, and the persons or rows of its tails."""
        texts = staged_release.frame[name]
        is_label = texts.isna() | texts.isin(coding.labels)
        n_wrong = len(texts) - int(is_label.sum())
        if coding.keeps_numbers:
            numbers = texts[~is_label].astype(float)
            n_wrong = sum(coding.label_of(number) is not None for number in numbers)
        entities, records = staged_release.draft.microdata.entities, staged_release.records
        units = records if entities is None else entities[records]
        tails = {
            label: len(np.unique(units[(texts == label).to_numpy(bool, na_value=False)]))
            for label in coding.tail_labels
        }
        return CodedCounts(n_wrong, tails)

    def count_wrong_dates(self, staged_release: StagedFrameRelease, source: Source) -> int:
        """Count the written dates that are not their originals plus the offset of their row."""
        draft, records = staged_release.draft, staged_release.records
        shift = draft.job.shift_dates
        assert isinstance(source, FrameSource)
        assert shift is not None
        assert draft.date_offsets is not None
        n_wrong = 0
        for name in shift.columns:
            attribute = draft.relation.attribute(name)
            original = source.frame[name].iloc[draft.microdata.keys[records, 0]]
            numbers = dates_to_numbers(attribute, original)
            expected = numbers + draft.date_offsets[records] * float(units_per_day(attribute))
            written = dates_to_numbers(attribute, staged_release.frame[name])
            n_wrong += int(
                (~((written == expected) | (np.isnan(written) & np.isnan(expected)))).sum()
            )
        return n_wrong

    def count_values(self, staged_release: StagedFrameRelease, name: str) -> dict[str | None, int]:
        """Count the released rows by their label in a column."""
        labels = staged_release.frame[name]
        counts: dict[str | None, int] = {
            str(label): int(count) for label, count in labels.value_counts().items()
        }
        n_missing = int(labels.isna().sum())
        return counts | ({None: n_missing} if n_missing else {})

    def find_unique_columns_in_sample(
        self, staged_release: StagedFrameRelease, names: Sequence[str]
    ) -> dict[str, DisclosiveColumn]:
        """Return an empty mapping: all rows are counted, not a sample."""
        return {}

    def count_profiles(
        self, staged_release: StagedFrameRelease, columns: Sequence[str], name: str
    ) -> tuple[int, int]:
        """Count the values of a column that several rows share, and those with a unique profile.

        A value's profile is the multiset of combinations that its rows have in ``columns``.
        """
        frame = staged_release.frame
        has_value = frame[name].notna().to_numpy()
        groups = group_by_display(frame, [name]).ngroup().to_numpy(np.int64)
        profiles = group_by_display(frame, columns).ngroup().to_numpy(np.int64)
        return count_unique_profiles(np.where(has_value, groups, -1), profiles)

    def count_homogeneous_classes(
        self, staged_release: StagedFrameRelease, columns: Sequence[str], name: str
    ) -> ClassHomogeneity:
        """Count the classes in which all rows share one value of a column."""
        classes, values = (
            group_by_display(staged_release.frame, names).ngroup().to_numpy(np.int64)
            for names in (columns, [name])
        )
        return ClassHomogeneity.of_groups(name, classes, values)

    def digest(self, staged_release: StagedFrameRelease) -> str | None:
        """Return None: a frame cannot be verified later."""
        return None

    def publish(
        self, staged_release: StagedFrameRelease, report: Report, counts: Counts, elapsed: float
    ) -> str:
        """Make the frame available as ``released``."""
        self.released = mark_row_order(staged_release.frame, self._row_order)
        self.source_positions = staged_release.draft.microdata.keys[staged_release.records, 0]
        return report.created_at


def _ranges_error() -> InvalidParameter:
    return InvalidParameter(
        "A data frame has no range type.",
        hint='Use `intervals="text"`, `intervals="bounds"` or `intervals="midpoint"`.',
    )


def _released_frame(
    frame: pd.DataFrame, draft: PreparedRelease, records: NDArray[np.int64]
) -> pd.DataFrame:
    """Build the released rows, with columns in the frame's order.

    If a column is released as two bounds, both take its place.
    """
    row_classes = draft.release.partition.labels[records]
    positions = draft.microdata.keys[records, 0]
    columns: dict[Hashable, pd.Series[Any]] = {}
    named_columns = draft.job.named_columns
    for name in frame.columns:
        if name not in named_columns:
            continue
        released_columns = [
            column for column in draft.release.class_values if column.quasi_identifier == str(name)
        ]
        if str(name) in draft.job.pseudonyms:
            columns[name] = _pseudonym_column(frame[name].iloc[positions], draft)
        elif (coding := draft.copy_codings.get(str(name))) is not None:
            columns[name] = _coded_column(frame[name].iloc[positions], coding)
        elif draft.job.shift_dates is not None and str(name) in draft.job.shift_dates.columns:
            columns[name] = _shifted_column(frame[name].iloc[positions], draft, records)
        elif not released_columns:
            columns[name] = without_unused_categories(
                frame[name].iloc[positions].reset_index(drop=True)
            )
        for column in released_columns:
            # A bound has a name of its own, which the frame may use for another column.
            key = name if column.renamed_from is None else column.attribute.name
            if key in columns or (column.renamed_from is not None and key in frame.columns):
                raise InvalidParameter(f'The data frame already has a column named "{key}".')
            # The SQL type ``GENERALIZED`` marks labels of a hierarchy, which are text even if the
            # source column holds numbers.
            if column.attribute.sql_type == GENERALIZED:
                original_values = frame[name].iloc[positions]
                columns[key] = generalized_column(
                    original_values, column.values, column.missing, row_classes
                )
            else:
                dtype = frame[name].dtype
                if column is draft.release.weight:
                    # Means of whole numbers and of decimals have fractions, unless rounded.
                    dtype = column.values.dtype
                columns[key] = without_unused_categories(
                    _released_column(column, dtype, row_classes)
                )
    released: pd.DataFrame = pd.DataFrame(columns)
    return released


def _pseudonym_column(values: pd.Series[Any], draft: PreparedRelease) -> pd.Series[Any]:
    """Compute the pseudonyms of values, in pandas' text type."""
    key, attribute = draft.pseudonym_key, draft.relation.attribute(str(values.name))
    assert key is not None
    python_values = values.astype(object).where(values.notna(), None)
    pseudonyms = [key.pseudonym(attribute, value) for value in python_values]
    series: pd.Series[Any] = pd.Series(pseudonyms, dtype=pd.Series(["text"]).dtype)
    return series


def _coded_column(values: pd.Series[Any], coding: CopyCoding) -> pd.Series[Any]:
    """Code numbers as labels, in pandas' text type; numbers that are kept become texts."""
    attribute = attribute_of(str(values.name), values)
    python_values = values.astype(object).where(values.notna(), None)
    texts = [code_value(value, attribute, coding) for value in python_values]
    series: pd.Series[Any] = pd.Series(texts, dtype=pd.Series(["text"]).dtype)
    return series


def _shifted_column(
    values: pd.Series[Any], draft: PreparedRelease, records: NDArray[np.int64]
) -> pd.Series[Any]:
    """Shift dates or timestamps by the offsets of their records, in the type of the source.

    Parameters
    ----------
    values : the original values of the released rows.
    records : int64 (r,), the record of each row.
    """
    assert draft.date_offsets is not None
    is_missing = values.isna().to_numpy()
    python_values = values.astype(object).to_numpy(object, copy=True)
    offsets = draft.date_offsets[records].tolist()
    for row in np.flatnonzero(~is_missing).tolist():
        python_values[row] = python_values[row] + timedelta(days=offsets[row])
    python_values[is_missing] = None
    series: pd.Series[Any] = pd.Series(python_values, dtype=values.dtype)
    return series


def _released_column(
    column: ReleasedColumn, dtype: AnyDtype | ExtensionDtype, row_classes: NDArray[np.int32]
) -> Any:
    """Build a column of released values in the type of the source column.

    Parameters
    ----------
    dtype : pandas type of the source column.
    row_classes : int32 (r,), the class of each row.
    """
    values, is_missing = column.values, column.missing
    if column.attribute.kind is Kind.CATEGORY:
        texts = values[row_classes]
        if is_missing is not None:
            texts[is_missing[row_classes]] = None
        if isinstance(dtype, pd.CategoricalDtype):
            values_by_text = {str(value): value for value in dtype.categories}
            texts = np.array([values_by_text.get(text) for text in texts], object)
        return pd.Series(texts, dtype=dtype)
    if column.attribute.kind is Kind.TIMESTAMP:
        timestamps = values.astype("datetime64[us]")
        if is_missing is not None:
            timestamps = np.where(is_missing, np.datetime64("NaT", "us"), timestamps)
        series: pd.Series[Any] = pd.Series(timestamps[row_classes])
        if column.attribute.has_time_zone:
            return series.dt.tz_localize("UTC").astype(dtype)
        return series.astype(dtype)
    if column.attribute.kind in (Kind.DATE, Kind.DECIMAL):
        python_values = to_python_objects(column.attribute, values)
        if is_missing is not None:
            python_values[is_missing] = None
        return pd.Series(python_values[row_classes], dtype=dtype)
    if is_missing is None:
        return pd.Series(values[row_classes]).astype(dtype)
    dtype = _nullable(dtype)
    nullable_values = values.astype(object)
    nullable_values[is_missing] = pd.NA if pd.api.types.is_extension_array_dtype(dtype) else np.nan
    return pd.Series(nullable_values[row_classes], dtype=dtype)


def _nullable(dtype: AnyDtype | ExtensionDtype) -> Any:
    """Return the type of pandas that has NULL, for integers and booleans of numpy."""
    if dtype.kind in "biu" and not pd.api.types.is_extension_array_dtype(dtype):
        return pd.Series([0], dtype=dtype).convert_dtypes().dtype
    return dtype


def _recount(frame: pd.DataFrame, names: Sequence[str], *, null_agrees: bool) -> Recount:
    """Group rows by these columns; count rows, class sizes, and rows with a NULL.

    Parameters
    ----------
    null_agrees : True to count the rows that agree with each row, too.
    """
    sizes = group_by_display(frame, names).size().to_numpy()
    n_null_rows = int(frame[list(names)].isna().any(axis=1).sum())
    agreeing_rows = _count_agreement(frame, names) if null_agrees else None
    return Recount(len(frame), _histogram(sizes), n_null_rows, agreeing_rows=agreeing_rows)


def _count_agreement(frame: pd.DataFrame, names: Sequence[str]) -> int:
    """Count the rows that agree with the row with which the fewest agree, NULL with every value."""
    codes = np.empty((len(frame), len(names)), np.int32)
    for position, name in enumerate(names):
        codes[:, position] = group_by_display(frame, [name]).ngroup()
        codes[frame[name].isna().to_numpy(), position] = MISSING_CODE
    rows, ids = number_distinct_rows(codes)
    return count_fewest_matches(rows, np.bincount(ids).astype(np.int64))


def _histogram(sizes: NDArray[np.int64]) -> dict[int, int]:
    """Return the number of classes by size."""
    distinct_sizes, counts = np.unique(sizes, return_counts=True)
    return dict(zip(distinct_sizes.tolist(), counts.tolist(), strict=True))


def _count_persons(
    classes: NDArray[np.int64],
    persons: NDArray[np.int32],
    value_counts: Mapping[str, ClassValueCounts],
) -> EntityCount:
    """Count the persons in each class.

    Parameters
    ----------
    classes, persons : (r,), the class and the person of each row.
    value_counts : by sensitive column, an entry with the value of each row. In the result, these
        entries count persons, too.
    """
    pairs = np.unique(np.column_stack((classes, persons)), axis=0)
    persons_by_class = np.bincount(pairs[:, 0])
    return EntityCount(
        persons=len(np.unique(persons)),
        smallest=int(persons_by_class.min()) if len(pairs) else 0,
        # The sizes of classes in rows; the persons of each class are counted below.
        histogram=_histogram(np.bincount(classes)),
        persons_per_class=persons_by_class.astype(np.int64),
        value_counts={
            name: _mark_first_rows(column_counts, persons)
            for name, column_counts in value_counts.items()
        },
    )


def _mark_first_rows(
    value_counts: ClassValueCounts, persons: NDArray[np.int32]
) -> ClassValueCounts:
    """Set the person counts of rows: 1 in a person's first row of each class and value, else 0."""
    triples = np.column_stack((value_counts.classes, value_counts.column.codes, persons))
    _, first_rows = np.unique(triples, axis=0, return_index=True)
    is_first = np.zeros(len(triples), np.int64)
    is_first[first_rows] = 1
    return replace(value_counts, persons=is_first)
