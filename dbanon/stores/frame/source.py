"""A data frame as the source of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dbanon.advice.forms import LOOKED_AT, form_of_texts, may_have
from dbanon.advice.persons import (
    HEAD,
    LOOKED_UP,
    PROBED,
    candidate_identifiers,
    constant_within,
    find_person_identifiers,
)
from dbanon.advice.profile import ColumnProfile, Profile
from dbanon.advice.roles import identifying
from dbanon.data.chunks import encode
from dbanon.data.microdata import CodedColumn, ColumnRoles, Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import CASEFOLD, Attribute, Kind, Schema, normalize_spelling
from dbanon.errors import DbanonError, UnsupportedType
from dbanon.hierarchy.edges import Pulse
from dbanon.hierarchy.leaves import column_texts
from dbanon.hierarchy.spec import HierarchySpec, build
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.job import Job
from dbanon.release.attribute_disclosure import ValueGroups, group_by_value
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName
from dbanon.stores.frame.display import display_codes
from dbanon.stores.frame.microdata import (
    attribute_of,
    candidates,
    microdata_from_frame,
    require_columns,
    require_texts,
    units,
)
from dbanon.stores.ports import PreparedRelease, Progress, SourceCounts

# The name of a frame, and its kind of relation.
NAME, KIND = "data frame", "frame"


@dataclass(frozen=True, eq=False)
class FrameSource:
    """The rows of a data frame, in its order; a record's key is its position."""

    frame: pd.DataFrame

    @property
    def drawn(self) -> Mapping[str, Any]:
        """Empty: the frame is already in this process."""
        return {}

    def describe(self, job: Job) -> Relation:
        """Describe the frame as a relation; columns without a role get the kind ``other``.

        Raises
        ------
        ColumnNotFound, InvalidParameter : a name matches no column, or two.
        UnsupportedType : a column to read has an unsupported type.
        """
        persons = job.guarantee.persons
        require_columns(self.frame, [*job.named, *persons])
        rows = candidates(self.frame, job.quasi_identifiers, job.policy.nulls)
        modelled = [model.attribute for model in job.policy.models]
        read = {*job.quasi_identifiers, *persons, *modelled, *job.columns_in_sets, *job.pseudonyms}
        attributes = [
            _with_order(attribute_of(str(name), rows[name]), job.policy.orders)
            if name in read
            else Attribute(str(name), Kind.OTHER)
            for name in self.frame.columns
        ]
        required = job.quasi_identifiers if job.policy.nulls == "suppress" else ()
        return Relation(
            RelationName(None, NAME),
            Schema(tuple(attributes)),
            KIND,
            len(self.frame),
            required=required,
        )

    def locate(self, relation: Relation, job: Job, names: Sequence[str]) -> Relation:
        """The frame itself: its rows are addressed by position."""
        return relation

    def state(self, relation: Relation) -> Mapping[str, Any]:
        """Empty: frames have no ledger."""
        return {}

    def pin(self, relation: Relation, names: Sequence[str]) -> Relation:
        """The frame itself: it does not change during the run."""
        return relation

    def inspect(self, relation: Relation, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
        """Fill in the types of attributes that were left as ``other``."""
        return tuple(
            attribute_of(a.name, self.frame[a.name]) if a.kind is Kind.OTHER else a
            for a in attributes
        )

    def hierarchy(self, column: str, spec: HierarchySpec, pulse: Pulse) -> Hierarchy:
        """Refuse: a frame has no stored hierarchies.

        Raises
        ------
        InvalidParameter : always.
        """
        return build(spec, (), column, pulse)

    def require_leaves(self, attribute: Attribute) -> None:
        """Nothing to check: pandas has one text for each value."""

    def distinct(self, relation: Relation, attribute: Attribute) -> list[str]:
        """The distinct values of a column except NULL, in the rows to read, in its order."""
        microdata = microdata_from_frame(self._rows(relation), [attribute.name])
        return column_texts(microdata, microdata.attributes[0])

    def count(self, relation: Relation) -> int:
        """Count the rows."""
        return len(self.frame)

    def totals(
        self, relation: Relation, persons: Sequence[Attribute], columns: Sequence[str]
    ) -> SourceCounts:
        """Count the rows, the persons, and the NULLs by column."""
        nulls = {name: int(self.frame[name].isna().sum()) for name in columns}
        totals = {"rows": len(self.frame)}
        if persons:
            totals["persons"] = int(self.frame[persons[0].name].nunique())
        return SourceCounts(totals, nulls)

    def digest(
        self, relation: Relation, names: Sequence[str], salt: int
    ) -> tuple[str | int, ...] | None:
        """None: frames have no digest."""
        return None

    def profile(self, relation: Relation) -> Profile:
        """Profile all columns by counts."""
        names = list(map(str, self.frame.columns))
        require_columns(self.frame, names)
        profiles = [_profile_column(name, self.frame[name]) for name in names]
        columns = (
            replace(column, form=_form(column, self.frame[column.name])) for column in profiles
        )
        return Profile(len(self.frame), tuple(columns))

    def find_identifier_columns(self, relation: Relation) -> dict[str, str]:
        """The columns that look like person identifiers, and why, judged by the first rows."""
        head = self.frame.iloc[:HEAD]
        names: list[Any] = list(self.frame.columns)
        attributes = []
        for name in names:
            # Skip unsupported types, and names that are ambiguous or not text.
            with suppress(DbanonError):
                if isinstance(name, str) and names.count(name) == 1:
                    attributes.append(_attribute_of(name, head[name]))
        codes_by_name = {
            name: _codes(self.frame[name].iloc[:LOOKED_UP]) for name in constant_within(attributes)
        }
        return find_person_identifiers(
            attributes,
            [_profile_column(name, head[name]) for name in candidate_identifiers(attributes)],
            lambda name: _agreement(codes_by_name[name][:HEAD]),
            lambda column: _dependency_counts(
                _codes(self.frame[column.name].iloc[:LOOKED_UP]), list(codes_by_name.values())
            ),
        )

    def identifiers(self, relation: Relation, names: Sequence[str]) -> dict[str, str]:
        """Which of these columns look like identifiers, and why, judged by the first rows."""
        profiles = [_profile_column(name, self.frame[name].iloc[:HEAD]) for name in names]
        return identifying(
            replace(column, form=_form(column, self.frame[column.name])) for column in profiles
        )

    def spellings(self, relation: Relation, person: Attribute) -> dict[str, int]:
        """Count the persons by normalization of the identifier."""
        rows = self._rows(relation)[person.name]
        return {
            kind: int(_persons(rows, replace(person, normalize=kind)).max(initial=-1)) + 1
            for kind in ("", person.normalize, CASEFOLD)
        }

    def classes_below(
        self, draft: PreparedRelease, partition: Partition, name: str
    ) -> tuple[int, int]:
        """Count the classes, and those with fewer than k values of a column; NULLs are distinct."""
        codes = _codes(self.frame[name].iloc[draft.microdata.keys[partition.members, 0]])
        classes = partition.labels[partition.members].astype(np.int64)
        missing = codes < 0
        codes[missing] = codes.max(initial=0) + 1 + np.arange(int(missing.sum()))
        pairs = np.unique(np.column_stack((classes, codes)), axis=0)
        persons = np.bincount(pairs[:, 0], minlength=partition.n_classes)
        return partition.n_classes, int((persons < int(draft.job.policy.k)).sum())

    def read(
        self, relation: Relation, roles: ColumnRoles, job: Job, progress: Progress
    ) -> Microdata:
        """Read the columns that have a role, of the rows that may be released."""
        rows = self._rows(relation)
        names = [attribute.name for attribute in roles.quasi_identifiers]
        require_texts(rows, [attribute.name for attribute in roles.sensitive])
        microdata = microdata_from_frame(
            rows,
            names,
            by=[attribute.name for attribute in roles.by],
            orders=job.policy.orders,
            kinds=job.policy.kinds,
        )
        keys = microdata.keys
        if len(rows) != len(self.frame):
            is_candidate = self.frame[list(relation.required)].notna().all(axis=1)
            keys = np.flatnonzero(is_candidate.to_numpy()).astype(np.int64).reshape(-1, 1)
        return replace(
            microdata,
            keys=keys,
            entities=roles.entities(lambda column: _persons(rows[column.name], column)),
            sensitive={
                attribute.name: coded(rows[attribute.name], attribute.name in roles.leaves)
                for attribute in roles.sensitive
            },
            withheld=len(self.frame) - len(rows),
        )

    def exact_totals(
        self,
        relation: Relation,
        microdata: Microdata,
        partition: Partition,
        attributes: Sequence[Attribute],
    ) -> Mapping[str, NDArray[np.object_]]:
        """Sum each class in Python integers, which do not overflow."""
        positions = microdata.keys[:, 0]
        return {
            a.name: _exact_totals(a, self.frame[a.name].iloc[positions], partition)
            for a in attributes
        }

    def kept_rows(
        self, relation: Relation, names: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[tuple[Any, ...]]]]:
        """Yield positions and values of these columns, row by row, in batches; NULL is None."""
        columns = self.frame[list(names)].astype(object)
        columns = columns.where(columns.notna(), None)
        for start in range(0, len(columns), chunk_rows):
            piece = columns.iloc[start : start + chunk_rows]
            keys = np.arange(start, start + len(piece), dtype=np.int64).reshape(-1, 1)
            yield keys, list(piece.itertuples(index=False, name=None))

    def pads(self, attribute: Attribute) -> bool:
        """False: a frame's values are never padded."""
        return False

    def different(self, draft: PreparedRelease, name: str) -> tuple[int, int]:
        """Count the released rows with a value in a column, and its distinct texts."""
        positions = draft.microdata.keys[draft.release.partition.members, 0]
        values = self.frame[name].iloc[positions].dropna()
        return len(values), values.map(str).nunique()

    def groups(self, draft: PreparedRelease, name: str) -> ValueGroups:
        """Group the released rows by their value of a column."""
        microdata, release = draft.microdata, draft.release
        records = release.partition.members
        originals = draft.originals
        before = [originals.codes(column)[records] for column in originals.names]
        persons = None if microdata.entities is None else microdata.entities[records]
        codes = _codes(self.frame[name].iloc[microdata.keys[records, 0]])
        return group_by_value(codes, before, int(draft.job.policy.k), persons)

    def originals(self, draft: PreparedRelease, name: str, columns: Sequence[str]) -> ValueGroups:
        """Group the released rows by their value of a quasi-identifier."""
        microdata, release = draft.microdata, draft.release
        records = release.partition.members
        release_originals = draft.originals
        positions, valid = microdata.keys[records, 0], microdata.valid_column(name)
        codes = release_originals.codes(name)[records]
        if valid is not None:
            codes = np.where(valid[records], codes, -1)
        kept_codes = [_codes(self.frame[column].iloc[positions]) for column in columns]
        return group_by_value(codes, kept_codes, 0)

    def _rows(self, relation: Relation) -> pd.DataFrame:
        """The rows that may be released."""
        if not relation.required:
            return self.frame
        return candidates(self.frame, relation.required, "suppress")


def _attribute_of(name: str, series: pd.Series[Any]) -> Attribute:
    try:
        return attribute_of(name, series)
    except UnsupportedType:
        return Attribute(name, Kind.OTHER, sql_type=str(series.dtype))


def _profile_column(name: str, series: pd.Series[Any]) -> ColumnProfile:
    """Profile a column by counts; unsupported types get the kind ``other``."""
    attribute = _attribute_of(name, series)
    present = series[series.notna()]
    distinct = int(_codes(present).max(initial=-1)) + 1
    length = worded = 0.0
    if attribute.kind is Kind.CATEGORY and len(present):
        # Not by pandas' text type: a lone surrogate would raise an error that quotes it.
        texts = [str(value) for value in present.astype(object)]
        length = sum(map(len, texts)) / len(texts)
        worded = sum(" " in text for text in texts) / len(texts)
    return ColumnProfile(attribute, len(present), distinct, False, length, worded)


def _form(column: ColumnProfile, series: pd.Series[Any]) -> str:
    """Detect the form of the first values."""
    if not may_have(column.attribute):
        return ""
    return form_of_texts(map(str, series.dropna().iloc[:LOOKED_AT].unique()))


def _agreement(codes: NDArray[np.int64]) -> float:
    """The share of row pairs with equal values; codes are -1 where NULL."""
    counts = np.bincount(codes[codes >= 0])
    rows = int(counts.sum())
    return (int(counts @ counts) - rows) / (rows * (rows - 1)) if rows > 1 else 1.0


def _dependency_counts(
    number: NDArray[np.int64], others: Sequence[NDArray[np.int64]]
) -> list[list[int]]:
    """Count, for some repeated values of a number, non-NULL and distinct values of other columns.

    The result is the input of ``constancy_within``.
    """
    if not others:
        return []
    head = number[:PROBED]
    probed = np.flatnonzero(np.isin(number, head[head >= 0]))
    _, group = np.unique(number[probed], return_inverse=True)
    sizes = np.bincount(group)
    columns = []
    for codes in others:
        group_codes = codes[probed]
        is_valid = group_codes >= 0
        valid_groups, width = group[is_valid], int(group_codes.max(initial=0)) + 1
        different = np.unique(valid_groups * width + group_codes[is_valid]) // width
        columns += [
            np.bincount(group_ids, minlength=len(sizes)) for group_ids in (valid_groups, different)
        ]
    shared: list[list[int]] = np.column_stack(columns)[sizes > 1].tolist()
    return shared


def _with_order(attribute: Attribute, orders: Mapping[str, Sequence[str]]) -> Attribute:
    """The attribute with its declared order."""
    if attribute.kind is not Kind.CATEGORY or not orders.get(attribute.name):
        return attribute
    return replace(attribute, order=tuple(orders[attribute.name]))


def coded(series: pd.Series[Any], as_texts: bool) -> CodedColumn:
    """Encode a column in its own order, or in the order of its texts if ``as_texts``."""
    if as_texts:
        is_valid = series.notna().to_numpy()
        texts = np.full(len(series), None, object)
        texts[is_valid] = [str(value) for value in series[is_valid]]
        return CodedColumn(*encode(texts))
    if isinstance(series.dtype, pd.CategoricalDtype) and not series.dtype.ordered:
        # Unordered categories have an arbitrary order, which differs in the release.
        series = series.astype(series.dtype.categories.dtype)
    values = pd.Index(series.dropna().unique()).sort_values()
    codes = values.get_indexer(series).astype(np.int32)
    return CodedColumn(codes, tuple(str(value) for value in values), display_codes(series))


def _exact_totals(
    attribute: Attribute, series: pd.Series[Any], partition: Partition
) -> NDArray[np.object_]:
    values = series
    if attribute.kind is Kind.TIMESTAMP:
        if attribute.has_time_zone:
            values = series.dt.tz_convert("UTC").dt.tz_localize(None)
        micros = values.to_numpy("datetime64[us]").astype(np.int64)
        integers = (micros // 10 ** (6 - attribute.scale)).astype(object)
    elif attribute.kind is Kind.DECIMAL:
        is_valid = series.notna().to_numpy()
        integers = np.zeros(len(series), object)
        integers[is_valid] = np.array([units(x, attribute.scale) for x in series[is_valid]], object)
    else:
        integers = values.to_numpy(object)
    integers[series.isna().to_numpy()] = 0
    # Python integers do not overflow, and reduceat adds them as they are.
    exact = np.array([int(value) for value in integers[partition.members]], object)
    return np.asarray(np.add.reduceat(exact, partition.starts), object)


def _persons(series: pd.Series[Any], person: Attribute) -> NDArray[np.int64]:
    """Encode persons, -1 where NULL; texts are compared after normalization."""
    if person.normalize:
        normalize = person.normalize
        series = series.map(
            lambda value: normalize_spelling(value, normalize) if isinstance(value, str) else value,
            na_action="ignore",
        )
    return pd.factorize(series)[0].astype(np.int64)


def _codes(series: pd.Series[Any]) -> NDArray[np.int64]:
    """Encode values, -1 where NULL; unhashable values are compared by their text."""
    try:
        codes, _ = pd.factorize(series)
    except TypeError:
        codes, _ = pd.factorize(series.map(str, na_action="ignore"))
    return codes.astype(np.int64)
