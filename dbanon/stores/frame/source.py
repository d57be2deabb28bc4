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
    constant_within,
    numbers_found,
    suspects,
)
from dbanon.advice.profile import Column, Profile
from dbanon.advice.roles import identifying
from dbanon.data.chunks import encode
from dbanon.data.microdata import Coded, ColumnRoles, Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import CASEFOLD, Attribute, Kind, Schema, spelled_alike
from dbanon.errors import DbanonError, UnsupportedType
from dbanon.hierarchy.edges import Pulse
from dbanon.hierarchy.leaves import column_texts
from dbanon.hierarchy.spec import HierarchySpec, build
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.job import Job
from dbanon.release.attribute_disclosure import ValueGroups, groups_of
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
from dbanon.stores.ports import Draft, Progress, SourceCounts

# What a frame is called, and what kind of relation it is.
NAME, KIND = "data frame", "frame"


@dataclass(frozen=True, eq=False)
class FrameSource:
    """The rows of a data frame, in its order. The keys of records are their places in it."""

    frame: pd.DataFrame

    @property
    def drawn(self) -> Mapping[str, Any]:
        """Nothing: the caller has the frame."""
        return {}

    def describe(self, job: Job) -> Relation:
        """The frame as a relation; what no release tells is of kind ``other``.

        Raises
        ------
        ColumnNotFound, InvalidParameter : a name is no column, or two.
        UnsupportedType : a column that is read has a type that no release has.
        """
        persons = job.guarantee.persons
        require_columns(self.frame, [*job.named, *persons])
        rows = candidates(self.frame, job.quasi_identifiers, job.policy.nulls)
        modelled = [model.attribute for model in job.policy.models]
        read = {*job.quasi_identifiers, *persons, *modelled, *job.in_sets, *job.pseudonyms}
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
        """The frame: its rows are found by their places."""
        return relation

    def state(self, relation: Relation) -> Mapping[str, Any]:
        """Nothing: no ledger keeps what it is known by."""
        return {}

    def pin(self, relation: Relation, names: Sequence[str]) -> Relation:
        """The frame: nobody changes it meanwhile."""
        return relation

    def inspect(self, relation: Relation, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
        """The attributes; those that no release looked at get the types they have."""
        return tuple(
            attribute_of(a.name, self.frame[a.name]) if a.kind is Kind.OTHER else a
            for a in attributes
        )

    def hierarchy(self, column: str, spec: HierarchySpec, pulse: Pulse) -> Hierarchy:
        """No hierarchy: those of databases are not here.

        Raises
        ------
        InvalidParameter : always.
        """
        return build(spec, (), column, pulse)

    def require_leaves(self, attribute: Attribute) -> None:
        """Nothing to check: pandas spells all values in one way."""

    def distinct(self, relation: Relation, attribute: Attribute) -> list[str]:
        """The values of a column but for NULL, of the rows that are read, in its order."""
        microdata = microdata_from_frame(self._rows(relation), [attribute.name])
        return column_texts(microdata, microdata.attributes[0])

    def count(self, relation: Relation) -> int:
        """The number of rows."""
        return len(self.frame)

    def totals(
        self, relation: Relation, persons: Sequence[Attribute], columns: Sequence[str]
    ) -> SourceCounts:
        """Rows, persons by the values of their column, and NULLs."""
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
        """What counts tell of all columns."""
        names = list(map(str, self.frame.columns))
        require_columns(self.frame, names)
        counted = [_counted(name, self.frame[name]) for name in names]
        columns = (replace(one, form=_form(one, self.frame[one.name])) for one in counted)
        return Profile(len(self.frame), tuple(columns))

    def numbers_of_persons(self, relation: Relation) -> dict[str, str]:
        """The columns that look like numbers of persons, and why; the first rows tell it."""
        head = self.frame.iloc[:HEAD]
        names: list[Any] = list(self.frame.columns)
        attributes = []
        for name in names:
            # What no release has is no number, and two columns of one name are not told apart.
            with suppress(DbanonError):
                if isinstance(name, str) and names.count(name) == 1:
                    attributes.append(_attribute_of(name, head[name]))
        known = {
            name: _codes(self.frame[name].iloc[:LOOKED_UP]) for name in constant_within(attributes)
        }
        return numbers_found(
            attributes,
            [_counted(name, head[name]) for name in suspects(attributes)],
            lambda name: _agree(known[name][:HEAD]),
            lambda column: _within(
                _codes(self.frame[column.name].iloc[:LOOKED_UP]), list(known.values())
            ),
        )

    def identifiers(self, relation: Relation, names: Sequence[str]) -> dict[str, str]:
        """Those of these columns that look like identifiers, and why; the first rows tell it."""
        counted = [_counted(name, self.frame[name].iloc[:HEAD]) for name in names]
        return identifying(replace(one, form=_form(one, self.frame[one.name])) for one in counted)

    def spellings(self, relation: Relation, person: Attribute) -> dict[str, int]:
        """The persons by how the identifier is normalized."""
        rows = self._rows(relation)[person.name]
        return {
            kind: int(_persons(rows, replace(person, normalize=kind)).max(initial=-1)) + 1
            for kind in ("", person.normalize, CASEFOLD)
        }

    def classes_below(self, draft: Draft, partition: Partition, name: str) -> tuple[int, int]:
        """Classes, and those that hold fewer than k values of a column; NULLs are one each."""
        codes = _codes(self.frame[name].iloc[draft.microdata.keys[partition.members, 0]])
        classes = partition.labels[partition.members].astype(np.int64)
        missing = codes < 0
        codes[missing] = codes.max(initial=0) + 1 + np.arange(int(missing.sum()))
        pairs = np.unique(np.column_stack((classes, codes)), axis=0)
        persons = np.bincount(pairs[:, 0], minlength=partition.n_classes)
        return partition.n_classes, int((persons < int(draft.job.policy.k)).sum())

    def read(
        self, relation: Relation, wanted: ColumnRoles, job: Job, progress: Progress
    ) -> Microdata:
        """The wanted columns of the rows that may be released."""
        rows = self._rows(relation)
        names = [attribute.name for attribute in wanted.quasi_identifiers]
        require_texts(rows, [attribute.name for attribute in wanted.sensitive])
        microdata = microdata_from_frame(
            rows,
            names,
            by=[attribute.name for attribute in wanted.by],
            orders=job.policy.orders,
            kinds=job.policy.kinds,
        )
        keys = microdata.keys
        if len(rows) != len(self.frame):
            held = self.frame[list(relation.required)].notna().all(axis=1)
            keys = np.flatnonzero(held.to_numpy()).astype(np.int64).reshape(-1, 1)
        return replace(
            microdata,
            keys=keys,
            entities=wanted.entities(lambda column: _persons(rows[column.name], column)),
            sensitive={
                attribute.name: coded(rows[attribute.name], attribute.name in wanted.leaves)
                for attribute in wanted.sensitive
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
        """Sums in each class, by Python's integers, which have no limit."""
        places = microdata.keys[:, 0]
        return {
            a.name: _exact_totals(a, self.frame[a.name].iloc[places], partition) for a in attributes
        }

    def kept_rows(
        self, relation: Relation, names: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[tuple[Any, ...]]]]:
        """Places and values of these columns, row by row, in pieces; NULL is None."""
        columns = self.frame[list(names)].astype(object)
        columns = columns.where(columns.notna(), None)
        for start in range(0, len(columns), chunk_rows):
            piece = columns.iloc[start : start + chunk_rows]
            keys = np.arange(start, start + len(piece), dtype=np.int64).reshape(-1, 1)
            yield keys, list(piece.itertuples(index=False, name=None))

    def pads(self, attribute: Attribute) -> bool:
        """False: values are as they stand in the frame."""
        return False

    def different(self, draft: Draft, name: str) -> tuple[int, int]:
        """The released rows with a value in a column, and how many texts these have."""
        places = draft.microdata.keys[draft.release.partition.members, 0]
        values = self.frame[name].iloc[places].dropna()
        return len(values), values.map(str).nunique()

    def groups(self, draft: Draft, name: str) -> ValueGroups:
        """The released rows by their value of a column."""
        microdata, release = draft.microdata, draft.release
        records = release.partition.members
        originals = draft.originals
        before = [originals.codes(column)[records] for column in originals.names]
        persons = None if microdata.entities is None else microdata.entities[records]
        codes = _codes(self.frame[name].iloc[microdata.keys[records, 0]])
        return groups_of(codes, before, int(draft.job.policy.k), persons)

    def originals(self, draft: Draft, name: str, columns: Sequence[str]) -> ValueGroups:
        """The released rows by their value of a quasi-identifier."""
        microdata, release = draft.microdata, draft.release
        records = release.partition.members
        held = draft.originals
        places, valid = microdata.keys[records, 0], microdata.valid_column(name)
        codes = held.codes(name)[records]
        if valid is not None:
            codes = np.where(valid[records], codes, -1)
        kept_codes = [_codes(self.frame[column].iloc[places]) for column in columns]
        return groups_of(codes, kept_codes, 0)

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


def _counted(name: str, series: pd.Series[Any]) -> Column:
    """What counts tell of a column; a type that no release has is of kind ``other``."""
    attribute = _attribute_of(name, series)
    present = series[series.notna()]
    distinct = int(_codes(present).max(initial=-1)) + 1
    length = worded = 0.0
    if attribute.kind is Kind.CATEGORY and len(present):
        # Not by pandas' text type, which half a character makes fail with an error that holds it.
        texts = [str(value) for value in present.astype(object)]
        length = sum(map(len, texts)) / len(texts)
        worded = sum(" " in text for text in texts) / len(texts)
    return Column(attribute, len(present), distinct, False, length, worded)


def _form(column: Column, series: pd.Series[Any]) -> str:
    """The form of the first values."""
    if not may_have(column.attribute):
        return ""
    return form_of_texts(map(str, series.dropna().iloc[:LOOKED_AT].unique()))


def _agree(codes: NDArray[np.int64]) -> float:
    """The share of pairs of rows that have one value; codes are -1 where NULL."""
    counts = np.bincount(codes[codes >= 0])
    rows = int(counts.sum())
    return (int(counts @ counts) - rows) / (rows * (rows - 1)) if rows > 1 else 1.0


def _within(number: NDArray[np.int64], others: Sequence[NDArray[np.int64]]) -> list[list[int]]:
    """As ``found_within`` wants them: of some values that several rows share, what they hold."""
    if not others:
        return []
    head = number[:PROBED]
    probed = np.flatnonzero(np.isin(number, head[head >= 0]))
    _, place = np.unique(number[probed], return_inverse=True)
    sizes = np.bincount(place)
    columns = []
    for codes in others:
        held = codes[probed]
        known = held >= 0
        of, width = place[known], int(held.max(initial=0)) + 1
        different = np.unique(of * width + held[known]) // width
        columns += [np.bincount(one, minlength=len(sizes)) for one in (of, different)]
    found: list[list[int]] = np.column_stack(columns)[sizes > 1].tolist()
    return found


def _with_order(attribute: Attribute, orders: Mapping[str, Sequence[str]]) -> Attribute:
    """The attribute with the order that was stated for it."""
    if attribute.kind is not Kind.CATEGORY or not orders.get(attribute.name):
        return attribute
    return replace(attribute, order=tuple(orders[attribute.name]))


def coded(series: pd.Series[Any], as_texts: bool) -> Coded:
    """A column in its own order, or, where that does not count, in that of its values' texts."""
    if as_texts:
        known = series.notna().to_numpy()
        texts = np.full(len(series), None, object)
        texts[known] = [str(value) for value in series[known]]
        return Coded(*encode(texts))
    if isinstance(series.dtype, pd.CategoricalDtype) and not series.dtype.ordered:
        # The order of categories that have none says nothing, and a release has another.
        series = series.astype(series.dtype.categories.dtype)
    values = pd.Index(series.dropna().unique()).sort_values()
    codes = values.get_indexer(series).astype(np.int32)
    return Coded(codes, tuple(str(value) for value in values), display_codes(series))


def _exact_totals(
    attribute: Attribute, series: pd.Series[Any], partition: Partition
) -> NDArray[np.object_]:
    values = series
    if attribute.kind is Kind.TIMESTAMP:
        if attribute.zoned:
            values = series.dt.tz_convert("UTC").dt.tz_localize(None)
        micros = values.to_numpy("datetime64[us]").astype(np.int64)
        integers = (micros // 10 ** (6 - attribute.scale)).astype(object)
    elif attribute.kind is Kind.DECIMAL:
        known = series.notna().to_numpy()
        integers = np.zeros(len(series), object)
        integers[known] = np.array([units(x, attribute.scale) for x in series[known]], object)
    else:
        integers = values.to_numpy(object)
    integers[series.isna().to_numpy()] = 0
    # Python's integers have no limit, and reduceat adds them as they are.
    exact = np.array([int(value) for value in integers[partition.members]], object)
    return np.asarray(np.add.reduceat(exact, partition.starts), object)


def _persons(series: pd.Series[Any], person: Attribute) -> NDArray[np.int64]:
    """Persons as codes, -1 where NULL; texts are compared as they are spelled alike."""
    if person.normalize:
        normalize = person.normalize
        series = series.map(
            lambda value: spelled_alike(value, normalize) if isinstance(value, str) else value,
            na_action="ignore",
        )
    return pd.factorize(series)[0].astype(np.int64)


def _codes(series: pd.Series[Any]) -> NDArray[np.int64]:
    """Values as codes, -1 where NULL; what cannot be told apart otherwise is by its text."""
    try:
        codes, _ = pd.factorize(series)
    except TypeError:
        codes, _ = pd.factorize(series.map(str, na_action="ignore"))
    return codes.astype(np.int64)
