"""A data frame as the target of a run: a new frame, handed over only after it was recounted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dbanon.data.counts import (
    ClassValueCounts,
    CountRequests,
    Counts,
    EntityCount,
    JointHistories,
    Recount,
)
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter
from dbanon.job.job import Job
from dbanon.ledger.source_history import NO_HISTORY, EarlierRelease, SourceHistory
from dbanon.recoding import GENERALIZED, RANGE, ReleasedColumn
from dbanon.release.alignment import INPUT, SHUFFLED
from dbanon.release.attribute_disclosure import DisclosiveColumn
from dbanon.release.homogeneity import ClassHomogeneity
from dbanon.release.linkage import unique_profiles
from dbanon.release.report import Report
from dbanon.sessions.base import Output, Relation, passthrough_error, random_order
from dbanon.sessions.names import RelationName
from dbanon.stores.frame.conversion import mark_row_order
from dbanon.stores.frame.display import group_by_display
from dbanon.stores.frame.microdata import objects
from dbanon.stores.frame.source import KIND, NAME, FrameSource, coded
from dbanon.stores.ports import LastCounts, PreparedRelease, Progress, Source, StagedRelease


def without_unused_categories(series: pd.Series[Any]) -> pd.Series[Any]:
    """Drop the categories that no row has.

    Ordered categories keep their order. Others are reordered by first occurrence in the release,
    since the old order may reveal the order of the original rows.
    """
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        codes, used = _recode_used(series.cat.codes.to_numpy(), bool(dtype.ordered))
        categories = dtype.categories.take(used).rename(None)
        recoded = pd.Categorical.from_codes(codes, categories=categories, ordered=dtype.ordered)
        result: pd.Series[Any] = pd.Series(recoded, index=series.index)
        return result
    if isinstance(dtype, pd.ArrowDtype) and hasattr(dtype.pyarrow_dtype, "value_type"):
        return _without_unused_arrow_categories(series, dtype.pyarrow_dtype)
    return series


def _without_unused_arrow_categories(series: pd.Series[Any], kind: Any) -> pd.Series[Any]:
    """Do the same for an Arrow dictionary column; other nested types stay unchanged."""
    import pyarrow as pa

    if not pa.types.is_dictionary(kind):
        return series
    chunked = series.array.__arrow_array__()
    array = chunked.unify_dictionaries().combine_chunks()
    raw = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    codes, used = _recode_used(raw, bool(kind.ordered))
    indices = pa.array(codes, kind.index_type, mask=codes < 0)
    dictionary = array.dictionary.take(pa.array(used))
    recoded = pa.DictionaryArray.from_arrays(indices, dictionary, ordered=kind.ordered)
    rebuilt: pd.Series[Any] = pd.Series(pd.arrays.ArrowExtensionArray(recoded), index=series.index)
    return rebuilt


def _recode_used(codes: Any, ordered: bool) -> tuple[Any, Any]:
    """Renumber the codes that occur, keeping -1 for NULL; also returns the old codes in order."""
    used, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.arange(len(used)) if ordered else np.argsort(first)
    order = order[used[order] >= 0]
    rank = np.full(len(used), -1)
    rank[order] = np.arange(len(order))
    return rank[inverse.reshape(-1)], used[order]


def labels_as(
    source: pd.Series[Any],
    values: NDArray[Any],
    missing: NDArray[np.bool_] | None,
    labels: NDArray[np.int32],
) -> pd.Series[Any]:
    """Build a column of generalized labels, in the source column's type if it allows.

    Text keeps its type; type ``object`` becomes pandas' text type. Categories remain categories:
    the source's own, in their order, if each label is one of them, or else the labels. Integers and
    booleans keep their type if each label is a value of the column. Everything else becomes text of
    type ``object``.

    Parameters
    ----------
    source : the original values of the released rows.
    values, missing : the label of each class, and whether it is NULL.
    labels : int32 (r,), the class of each row.
    """
    texts = values.astype(object)
    if missing is not None:
        texts[missing] = None
    source_dtype = source.dtype
    categories = isinstance(source_dtype, pd.CategoricalDtype)
    dtype: Any = source_dtype if isinstance(source_dtype, pd.StringDtype) else object
    if pd.api.types.is_object_dtype(source_dtype):
        # Otherwise the type would reveal a withheld row that held no text.
        dtype = pd.Series(["text"]).dtype
    if (
        categories
        or pd.api.types.is_integer_dtype(source_dtype)
        or pd.api.types.is_bool_dtype(source_dtype)
    ):
        values_by_text = {str(value): value for value in source.dropna().unique()}
        if {text for text in texts if text is not None} <= values_by_text.keys():
            texts, dtype = (
                np.array([values_by_text.get(text) for text in texts], object),
                source_dtype,
            )
        elif categories:
            dtype = "category"
    class_labels: pd.Series[Any] = pd.Series(texts, dtype=object).astype(dtype)
    rows = class_labels.iloc[labels].reset_index(drop=True)
    if dtype == "category":
        # The labels are sorted; drop those of withheld classes.
        return rows.cat.remove_unused_categories()
    return without_unused_categories(rows)


@dataclass(frozen=True, eq=False)
class StagedFrameRelease(StagedRelease):
    """A release in a new frame.

    Parameters
    ----------
    frame : the released rows.
    records : int64 (r,), the record of each row.
    """

    frame: pd.DataFrame
    records: NDArray[np.int64]


class FrameTarget:
    """Receives a released frame.

    Parameters
    ----------
    rows : ``input`` keeps order and index; otherwise rows get a random order and a new index.

    Attributes
    ----------
    released, places : the frame, and the source position of each of its rows, int64 (r,); None
        until it is published.
    """

    released: pd.DataFrame | None = None
    places: NDArray[np.int64] | None = None

    def __init__(self, rows: str = SHUFFLED) -> None:
        self._rows = rows

    def plan(self, job: Job, release_id: str) -> Output:
        """Plan the output: a frame in memory has no conflicts. Raises as ``require_ranges``."""
        if job.policy.intervals == RANGE:
            raise _no_ranges()
        name = RelationName(None, NAME)
        return Output(name, name, name, KIND, release_id)

    def earlier(
        self, source: Source, relation: Relation, state: Mapping[str, Any]
    ) -> SourceHistory:
        """Empty: frames have no ledger."""
        return NO_HISTORY

    def joint_histories(
        self, written: Any, earlier: Sequence[EarlierRelease], k: int
    ) -> JointHistories | None:
        """None: frames have no ledger."""
        return None

    def last_types(self, job: Job, source: RelationName) -> Mapping[str, str]:
        """None: frames have no ledger."""
        return {}

    def last_counts(
        self, job: Job, source: RelationName, output: RelationName
    ) -> LastCounts | None:
        """None: frames have no ledger."""
        return None

    def require_ranges(self, attribute: Attribute) -> None:
        """Refuse ranges; raises InvalidParameter."""
        raise _no_ranges()

    def copies_from(self, source: Source) -> bool:
        """False for frames: a frame is released from a frame."""
        return not isinstance(source, FrameSource)

    def require_type(self, attribute: Attribute) -> None:
        """Nothing to check: a frame holds values of any type."""

    def require_passthrough(
        self, source: Source, relation: Relation, columns: Sequence[Attribute]
    ) -> None:
        """Refuse: a frame is already in the client; raises InvalidParameter."""
        raise passthrough_error()

    def write(
        self, draft: PreparedRelease, source: Source, progress: Progress
    ) -> StagedFrameRelease:
        """Build the released rows; raises as ``ports.Target``."""
        assert isinstance(source, FrameSource)
        records = np.flatnonzero(draft.release.partition.labels >= 0)
        if self._rows != INPUT:
            records = records[random_order(len(records))]
        released = _released_frame(source.frame, draft, records)
        if self._rows == INPUT:
            released.index = source.frame.index.take(draft.microdata.keys[records, 0])
        return StagedFrameRelease(draft, released, records)

    def count(self, written: StagedFrameRelease, questions: CountRequests) -> Counts:
        """Answer the questions by grouping rows with equal values."""
        frame = written.frame
        rows = questions.recounted(lambda columns: _recount(frame, columns))
        also = tuple(_recount(frame, columns) for columns in questions.also)
        if not (questions.persons or questions.sensitive):
            return Counts(rows, also=also)
        classes = group_by_display(frame, questions.columns).ngroup().to_numpy(np.int64)
        entities = written.draft.microdata.entities
        ones = np.ones(len(frame), np.int64)
        cells = {
            name: ClassValueCounts(classes, coded(frame[name], name in questions.leaves), ones)
            for name in questions.sensitive
        }
        persons = {}
        for name in questions.persons:
            assert entities is not None
            row_entities = entities[written.records]
            of_sets = tuple(
                _persons(
                    group_by_display(frame, columns).ngroup().to_numpy(np.int64), row_entities, {}
                )
                for columns in questions.also
            )
            persons[name] = replace(_persons(classes, row_entities, cells), also=of_sets)
        return Counts(rows, persons, cells, also=also)

    def require_pseudonyms(self, source: Source) -> None:
        """Nothing to check: Python computes pseudonyms."""

    def different(self, written: StagedFrameRelease, name: str) -> tuple[int, int]:
        """Count the released rows with a value in a column, and its distinct values."""
        values = written.frame[name].dropna()
        return len(values), values.nunique()

    def sampled(
        self, written: StagedFrameRelease, names: Sequence[str]
    ) -> dict[str, DisclosiveColumn]:
        """Empty: all rows are counted, not a sample."""
        return {}

    def profiles(
        self, written: StagedFrameRelease, columns: Sequence[str], name: str
    ) -> tuple[int, int]:
        """Count values that several rows share, and those with unique profiles."""
        frame = written.frame
        present = frame[name].notna().to_numpy()
        groups = group_by_display(frame, [name]).ngroup().to_numpy(np.int64)
        profiles = group_by_display(frame, columns).ngroup().to_numpy(np.int64)
        return unique_profiles(np.where(present, groups, -1), profiles)

    def homogeneity(
        self, written: StagedFrameRelease, columns: Sequence[str], name: str
    ) -> ClassHomogeneity:
        """Count the classes in which all rows share one value of a column."""
        classes, values = (
            group_by_display(written.frame, names).ngroup().to_numpy(np.int64)
            for names in (columns, [name])
        )
        return ClassHomogeneity.of_groups(name, classes, values)

    def digest(self, written: StagedFrameRelease) -> str | None:
        """None: a frame cannot be verified later."""
        return None

    def publish(
        self, written: StagedFrameRelease, report: Report, counts: Counts, elapsed: float
    ) -> str:
        """Hand the frame over."""
        self.released = mark_row_order(written.frame, self._rows)
        self.places = written.draft.microdata.keys[written.records, 0]
        return report.created_at


def _no_ranges() -> InvalidParameter:
    return InvalidParameter(
        "A data frame has no range type.",
        hint='Use `intervals="text"`, `intervals="bounds"` or `intervals="midpoint"`.',
    )


def _released_frame(
    frame: pd.DataFrame, draft: PreparedRelease, records: NDArray[np.int64]
) -> pd.DataFrame:
    """Build the released rows with the frame's column order; bounds replace their column."""
    labels = draft.release.partition.labels[records]
    positions = draft.microdata.keys[records, 0]
    columns: dict[Any, pd.Series[Any]] = {}
    for name in (name for name in frame.columns if name in draft.job.named):
        released_here = [column for column in draft.release.columns if column.source == str(name)]
        if str(name) in draft.job.pseudonyms:
            columns[name] = _pseudonyms(frame[name].iloc[positions], draft)
        elif not released_here:
            columns[name] = without_unused_categories(
                frame[name].iloc[positions].reset_index(drop=True)
            )
        for column in released_here:
            key = name if column.source_name is None else column.attribute.name
            if key in columns or (column.source_name is not None and key in frame.columns):
                raise InvalidParameter(f'The data frame already has a column named "{key}".')
            if column.attribute.sql_type == GENERALIZED:
                before = frame[name].iloc[positions]
                columns[key] = labels_as(before, column.values, column.missing, labels)
            else:
                columns[key] = without_unused_categories(_series(column, frame[name].dtype, labels))
    released: pd.DataFrame = pd.DataFrame(columns)
    return released


def _pseudonyms(values: pd.Series[Any], draft: PreparedRelease) -> pd.Series[Any]:
    """Compute the pseudonyms of values, in pandas' text type."""
    key, attribute = draft.pseudonym_key, draft.relation.attribute(str(values.name))
    assert key is not None
    plain = values.astype(object).where(values.notna(), None)
    pseudonyms = [key.of(attribute, value) for value in plain]
    series: pd.Series[Any] = pd.Series(pseudonyms, dtype=pd.Series(["text"]).dtype)
    return series


def _series(column: ReleasedColumn, dtype: Any, labels: NDArray[np.int32]) -> Any:
    values, missing = column.values, column.missing
    if column.attribute.kind is Kind.CATEGORY:
        texts = values[labels]
        if missing is not None:
            texts[missing[labels]] = None
        if isinstance(dtype, pd.CategoricalDtype):
            values_by_text = {str(value): value for value in dtype.categories}
            texts = np.array([values_by_text.get(text) for text in texts], object)
        return pd.Series(texts, dtype=dtype)
    if column.attribute.kind is Kind.TIMESTAMP:
        moments = values.astype("datetime64[us]")
        if missing is not None:
            moments = np.where(missing, np.datetime64("NaT", "us"), moments)
        series: pd.Series[Any] = pd.Series(moments[labels])
        if column.attribute.has_time_zone:
            return series.dt.tz_localize("UTC").astype(dtype)
        return series.astype(dtype)
    if column.attribute.kind in (Kind.DATE, Kind.DECIMAL):
        python_values = objects(column.attribute, values)
        if missing is not None:
            python_values[missing] = None
        return pd.Series(python_values[labels], dtype=dtype)
    if missing is None:
        return pd.Series(values[labels]).astype(dtype)
    holed = values.astype(object)
    holed[missing] = pd.NA if pd.api.types.is_extension_array_dtype(dtype) else np.nan
    return pd.Series(holed[labels], dtype=dtype)


def _recount(frame: pd.DataFrame, names: Sequence[str]) -> Recount:
    histogram = _histogram(group_by_display(frame, names).size().to_numpy())
    null_rows = int(frame[list(names)].isna().any(axis=1).sum())
    return Recount(len(frame), histogram, null_rows)


def _histogram(sizes: NDArray[np.int64]) -> dict[int, int]:
    distinct_sizes, counts = np.unique(sizes, return_counts=True)
    return dict(zip(distinct_sizes.tolist(), counts.tolist(), strict=True))


def _persons(
    classes: NDArray[np.int64], persons: NDArray[np.int32], cells: Mapping[str, ClassValueCounts]
) -> EntityCount:
    """Count the persons in each class; all arguments have one entry per row."""
    pairs = np.unique(np.column_stack((classes, persons)), axis=0)
    in_class = np.bincount(pairs[:, 0])
    return EntityCount(
        persons=len(np.unique(persons)),
        smallest=int(in_class.min()) if len(pairs) else 0,
        histogram=_histogram(np.bincount(classes)),
        in_class=in_class.astype(np.int64),
        cells={
            name: _mark_first_rows(column_cells, persons) for name, column_cells in cells.items()
        },
    )


def _mark_first_rows(cells: ClassValueCounts, persons: NDArray[np.int32]) -> ClassValueCounts:
    """Mark each row with 1 if it is its person's first in its cell, and 0 otherwise."""
    key = np.column_stack((cells.classes, cells.column.codes, persons))
    first = np.zeros(len(key), np.int64)
    first[np.unique(key, axis=0, return_index=True)[1]] = 1
    return replace(cells, persons=first)
