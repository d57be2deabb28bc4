"""Read a sample from a database or a data frame, with columns as codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import CodedColumn, ColumnRoles, Microdata, take_weights
from dbanon.data.schema import NOMINAL, Kind, apply_kinds
from dbanon.data.weights import WEIGHT_KINDS, require_weight_type
from dbanon.errors import ColumnNotFound, KeyRequired, TooFewRecords
from dbanon.extensions.survey.assess import Sample
from dbanon.extensions.survey.request import RiskRequest
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.job.requirements import require_kinds
from dbanon.measures.agreement import MISSING_CODE
from dbanon.measures.figure import Tick, ignore_progress
from dbanon.run.compare_analyses import find_bounds
from dbanon.stores.ports import Source


@dataclass(frozen=True, eq=False)
class SampleTable:
    """A table as it was read.

    Parameters
    ----------
    name : the name of the table.
    columns : the quasi-identifiers, in their order.
    is_number : for each of them, whether its texts are those of numbers.
    weights : float64 (n,); None if the request names no weight.
    household : the column of households; None if the request names none.
    row_keys : the columns of the row key by name; empty if the request names no key.
    positions : int64 (n,), the numbers by which the store addresses the rows.
    """

    name: str
    columns: tuple[CodedColumn, ...]
    is_number: tuple[bool, ...]
    weights: NDArray[np.float64] | None
    household: CodedColumn | None
    row_keys: dict[str, CodedColumn]
    positions: NDArray[np.int64]


def read_table(
    request: RiskRequest,
    source: Source,
    tick: Tick = ignore_progress,
    *,
    compared_as_text: Sequence[str] = (),
) -> SampleTable:
    """Read the columns that a request names.

    Parameters
    ----------
    tick : called with the share of the rows that were read, 0 to 1.
    compared_as_text : quasi-identifiers of types whose values are compared by their texts only.

    Raises
    ------
    TooFewRecords : the table has no rows.
    UnsupportedType : the weight is not a number, or a type cannot be compared.
    InvalidParameter : a weight is NULL or not above 0.
    DbanonError : the table cannot be read.
    """
    weight_columns = tuple(name for name in (request.weight,) if name is not None)
    all_names = (*request.quasi_identifiers, *weight_columns)
    names = tuple(name for name in all_names if name not in compared_as_text)
    # Households and keys may be of any type. They are compared by their texts.
    text_names = tuple(name for name in request.columns if name not in names)
    kinds = {name: NOMINAL for name in request.quasi_identifiers if name in names}
    job = Job(
        table=request.table,
        output="",  # Nothing is written.
        quasi_identifiers=names,
        sensitive=text_names,
        key=request.key,
        memory_limit=request.memory_limit,
        # Rows with NULL are read, too. Nothing is released with this policy.
        policy=Policy(k=2, method="gaa_cp", nulls="category", kinds=kinds),
    )
    relation = source.describe(job)
    attributes = apply_kinds([relation.attribute(name) for name in names], kinds)
    if names:
        require_kinds(job.policy, attributes)
    relation = source.pin(source.with_row_locator(relation, job, request.columns), request.columns)
    tick(0.0)
    attributes = source.complete_attributes_from_values(relation, attributes)
    for attribute in attributes:
        if attribute.name == request.weight:
            require_weight_type(attribute)
    texts = tuple(replace(relation.attribute(name), kind=Kind.CATEGORY) for name in text_names)
    # Only privacy models need the order of values, so read them as leaves of a hierarchy are read.
    roles = ColumnRoles(attributes, sensitive=texts, hierarchy_columns=frozenset(text_names))
    microdata = source.read(relation, roles, job, tick)
    if not microdata.n_records:
        raise TooFewRecords(f"{relation.name} has no rows.")
    coded_columns = {**microdata.sensitive, **_list_coded_columns(microdata)}
    nominal_names = {attribute.name for attribute in attributes if attribute.nominal}
    return SampleTable(
        name=str(relation.name),
        columns=tuple(coded_columns[name] for name in request.quasi_identifiers),
        is_number=tuple(name in nominal_names for name in request.quasi_identifiers),
        weights=None if request.weight is None else take_weights(microdata, request.weight),
        household=None if request.household is None else coded_columns[request.household],
        row_keys={name: coded_columns[name] for name in request.key},
        positions=microdata.keys[:, 0],
    )


def read_population(
    request: RiskRequest, source: Source, tick: Tick = ignore_progress
) -> SampleTable:
    """Read the quasi-identifiers of the population table that a request names.

    Raises
    ------
    KeyRequired : it is a view, whose rows the key of the sample does not identify.
    DbanonError : as ``read_table``.
    """
    try:
        return read_table(request.for_population(str(request.population)), source, tick)
    except KeyRequired:
        raise KeyRequired(
            "The population is a view: its rows have no key of their own.",
            hint="Name a table, or copy the view into one.",
        ) from None


def read_released(
    request: RiskRequest, source: Source, tick: Tick = ignore_progress
) -> tuple[SampleTable, RiskRequest]:
    """Read the released table that a request names, and request the same figures of it.

    Quasi-identifiers that the release does not have are left out. Its weights and households are
    those of its columns of the same names, if it has them.

    Raises
    ------
    ColumnNotFound : the release has none of the quasi-identifiers.
    KeyRequired : it is a view, whose rows the key of the sample does not identify.
    DbanonError : as ``read_table``.
    """
    table = str(request.released)
    columns = source.describe(_describe_job(table, ())).schema.attributes
    released_names = [attribute.name for attribute in columns]
    parts_by_name = find_released_parts(table, request.quasi_identifiers, released_names)
    parts = tuple(dict.fromkeys(part for parts in parts_by_name.values() for part in parts))
    weight = request.weight if request.weight in released_names else None
    weight_names = () if weight is None else (weight,)
    relation = source.describe(_describe_job(table, (*parts, *weight_names)))
    if weight is not None and relation.attribute(weight).kind not in WEIGHT_KINDS:
        weight = None
    household = request.household if request.household in released_names else None
    # Intervals can be values of range types.
    texts = [part for part in parts if relation.attribute(part).kind is Kind.OTHER]
    try:
        released = read_table(
            replace(request, suda=False, suda_size=None).for_release(parts, weight, household),
            source,
            tick,
            compared_as_text=texts,
        )
    except KeyRequired:
        raise KeyRequired(
            "The release is a view: its rows have no key of their own.",
            hint="Name a table, or copy the view into one.",
        ) from None
    released_request = request.for_release(tuple(parts_by_name), weight, household)
    return join_parts(released, parts, parts_by_name), released_request


def find_released_parts(
    table: str, names: Sequence[str], released_names: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Return the released columns of each quasi-identifier that a release has.

    Parameters
    ----------
    table : the name of the release.
    names : the quasi-identifiers.
    released_names : all columns of the release.

    Raises
    ------
    ColumnNotFound : the release has none of the quasi-identifiers.
    """
    parts_by_name = {
        name: parts
        for name, parts in find_bounds(names, released_names).items()
        if set(parts) <= set(released_names)
    }
    if not parts_by_name:
        raise ColumnNotFound(
            f"{table} has none of the quasi-identifiers.",
            hint="Name a release that has released values of them (`released`).",
        )
    return parts_by_name


def join_parts(
    released: SampleTable, parts: Sequence[str], parts_by_name: Mapping[str, Sequence[str]]
) -> SampleTable:
    """Join the two columns of bounds that a column was released as.

    Parameters
    ----------
    parts : the names of the columns that were read.
    parts_by_name : by quasi-identifier, its released column, or those of its bounds.
    """
    columns = dict(zip(parts, released.columns, strict=True))
    number_parts = {
        part for part, is_number in zip(parts, released.is_number, strict=True) if is_number
    }
    joined_columns, is_number = [], []
    for first, *others in parts_by_name.values():
        column = columns[first]
        joined_columns.append(_join_bounds(column, columns[others[0]]) if others else column)
        is_number.append(first in number_parts and not others)
    return replace(released, columns=tuple(joined_columns), is_number=tuple(is_number))


def _join_bounds(low: CodedColumn, high: CodedColumn) -> CodedColumn:
    """Join the columns of lower and upper bounds into one of intervals; NULL without any bound."""
    pairs, codes = np.unique(np.column_stack([low.codes, high.codes]), axis=0, return_inverse=True)
    texts = tuple(
        repr([low.values[a] if a >= 0 else None, high.values[b] if b >= 0 else None])
        for a, b in pairs.tolist()
    )
    has_bound = (low.codes >= 0) | (high.codes >= 0)
    joined_codes = np.where(has_bound, codes.reshape(-1), MISSING_CODE).astype(np.int32)
    return CodedColumn(joined_codes, texts)


def _describe_job(table: str, names: tuple[str, ...]) -> Job:
    """A job that names columns of a table, to look up their types."""
    policy = Policy(k=2, method="gaa_cp", nulls="category")
    return Job(table=table, output="", quasi_identifiers=names, policy=policy)


def code_sample(table: SampleTable, population: SampleTable | None = None) -> Sample:
    """Code the values of a sample, and those of a population table with the same codes.

    Equal numbers have equal codes, however they are written.
    """
    tables = [table] if population is None else [table, population]
    codes: list[list[NDArray[np.int32]]] = [[] for _ in tables]
    for position in range(len(table.columns)):
        columns = [each.columns[position] for each in tables]
        is_number = all(each.is_number[position] for each in tables)
        for table_codes, column_codes in zip(
            codes, _code_values(columns, is_number=is_number), strict=True
        ):
            table_codes.append(column_codes)
    return Sample(
        source=table.name,
        codes=np.column_stack(codes[0]),
        weights=table.weights,
        households=None if table.household is None else table.household.codes,
        population=None if population is None else np.column_stack(codes[1]),
        population_counts=None if population is None else population.weights,
    )


def _code_values(columns: Sequence[CodedColumn], *, is_number: bool) -> list[NDArray[np.int32]]:
    """Code the values of several columns, int32 (n,) each: equal values have equal codes."""
    code_of_value: dict[object, int] = {}
    results = []
    for column in columns:
        # The last element is for NULL, whose code is -1.
        new_codes = np.full(len(column.values) + 1, MISSING_CODE, np.int32)
        for code, text in enumerate(column.values):
            value = _to_number(text) if is_number else text
            new_codes[code] = code_of_value.setdefault(value, len(code_of_value))
        results.append(new_codes[column.codes])
    return results


def _to_number(text: str) -> object:
    """Convert the text of a number, so that 7.5 equals 7.50; other texts are returned unchanged."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    # Not a number equals nothing, not even itself.
    return number if number.is_finite() else text


def _list_coded_columns(microdata: Microdata) -> dict[str, CodedColumn]:
    """The quasi-identifiers of microdata that are read as codes, by name."""
    return {
        attribute.name: CodedColumn(microdata.codes[:, index].copy(), microdata.categories[index])
        for index, attribute in enumerate(microdata.categorical)
    }
