"""The Python API for evaluation: an original table and a released one, from any tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.microdata import Microdata
from dbanon.data.option import find_parameter
from dbanon.data.partition import SUPPRESSED, Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.data.types import KeywordArguments
from dbanon.doors.arrays import as_partition, as_table, is_frame
from dbanon.errors import (
    InvalidParameter,
    RowsNotAligned,
    TooFewRecords,
    UnsupportedType,
    name_missing_extras,
)
from dbanon.hierarchy.leaves import ANY
from dbanon.hierarchy.spec import HierarchySource, HierarchySpec, build_all, parse_all
from dbanon.hierarchy.tree import Hierarchy, flat_hierarchy
from dbanon.job.guarantee_names import guarantee_from_ledger
from dbanon.job.policy import Policy
from dbanon.measures.agreement import combine_codes
from dbanon.measures.figure import Parameters
from dbanon.measures.pairs import Pairs
from dbanon.recoding import ReleasedColumn
from dbanon.release.alignment import is_unrelated
from dbanon.release.evaluation import Evaluation, evaluation_of, pairs_of

if TYPE_CHECKING:
    import pandas as pd

    from dbanon.release.report import Report

_NUMBER_KINDS = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)


def evaluate(
    original: ArrayLike | pd.DataFrame,
    released: ArrayLike | pd.DataFrame,
    *,
    quasi_identifiers: Sequence[str] | None = None,
    key: str | Sequence[str] | None = None,
    report: Report | None = None,
    classes: Partition | ArrayLike | None = None,
    orders: Mapping[str, Sequence[str]] | None = None,
    hierarchies: Mapping[str, HierarchySource] | None = None,
    lambdas: Sequence[float] = (0.5, 0.0, 0.5),
    taus: Sequence[float] = (0.5, 0.5),
    gammas: Sequence[float] = (0.5, 0.5),
    interval_percents: Iterable[float] = range(1, 11),
    sample: int | None = None,
    seed: int = 0,
    risk: Mapping[str, object] | None = None,
) -> Evaluation:
    """Measure the loss and remaining risk of a released table, whatever tool made it.

    Each original row is paired with its released row: by position, by a key, or by the report of
    ``anonymize_frame``. A released row with ``*`` in every quasi-identifier counts as suppressed,
    and so does an original whose key is in no released row. If rows are paired by position, a test
    against random pairs detects shuffled rows, see docs/evaluation.md. For releases in a database,
    which have neither order nor keys, use ``evaluate_release``.

    Parameters
    ----------
    original, released : either both (n, p) numbers, or both tables as ``anonymize_frame`` takes
        them. Intervals are text such as ``[20, 30)``, bands of numbers such as ``20-29``, ``<18``
        or ``65+``; other labels are nodes of ``hierarchies``. NaN counts as NULL.
    quasi_identifiers : the columns to compare; None for all columns that both tables have, except
        the key.
    key : columns of both tables by which rows are paired, unique and without NULL; None to pair
        rows by position.
    report : the report of the ``anonymize_frame`` call that returned ``released``. In memory it
        keeps which row became which. It also supplies quasi-identifiers, orders, strata and the
        person column.
    classes : the class label of each original, or a partition; if None, rows with equal released
        values form a class.
    orders : for text columns, by name: their values from the lowest to the highest.
    hierarchies : by column, a Hierarchy, the path of a file, or a builder such as
        ``{"intervals": [5, 10]}``.
    lambdas, taus, gammas : weights of the combined measures in docs/evaluation.md: of the losses
        IL_1 to IL_3 in IL_s, of the risks DLD and ID in DR, and of IL and DR in the score.
    interval_percents : widths of the intervals for interval disclosure, in percent.
    sample : number of records to link, drawn with ``seed``; None for all records if their number
        permits, otherwise a sample.
    risk : also measure the disclosure risk of both tables, with these options of
        ``disclosure_risk`` by name, such as ``{"weight": "w", "household": "hh"}``; ``{}`` for the
        defaults. For the controller of the data, not for publication.

    Raises
    ------
    InvalidParameter : the tables cannot be paired, a label is unknown, or a class is released with
        different values.
    RowsNotAligned : rows at the same position do not belong together, or the report belongs to
        other tables.
    ColumnNotFound : a table lacks a named column.
    UnsupportedType : a released column has neither the original's type nor text.
    UnknownOption : ``risk`` has no such option.
    """
    _require_key_or_report(key, report)
    original_frame, released_frame = as_frames(original, released)
    if report is not None:
        quasi_identifiers = quasi_identifiers or report.quasi_identifiers
        orders = orders or report.arguments["orders"]
    names = select_columns_to_compare(original_frame, released_frame, quasi_identifiers, key)
    released_index = _match_rows(original_frame, released_frame, names, key, report)
    tree_sources = parse_all(hierarchies, files=True)
    parameters = _convert_parameters(
        lambdas=lambdas,
        taus=taus,
        gammas=gammas,
        interval_percents=interval_percents,
        sample=sample,
        seed=seed,
    )
    from dbanon.stores.frame.microdata import microdata_from_frame, with_strata_and_persons

    microdata = microdata_from_frame(
        original_frame, names, orders=find_parameter(Policy, "orders").check(orders)
    )
    if not microdata.n_records:
        raise TooFewRecords("There are no records.")
    if report is not None:
        # The report's arguments have the form in which the ledger stores them. ``by`` names the
        # strata columns.
        guarantee = guarantee_from_ledger(report.k_requested, report.arguments)
        microdata = with_strata_and_persons(
            original_frame,
            microdata,
            guarantee.by,
            guarantee.entity_columns,
            report.arguments.get("entity_normalize") or "",
        )
    # dbanon never writes suppressed rows, so in its own releases a row of stars belongs to a class
    # that is generalized to the root.
    pairs = _pair_rows(
        microdata,
        released_frame,
        released_index,
        classes,
        tree_sources,
        stars_are_suppressed=report is None,
    )
    if key is None and report is None:
        _require_related(pairs, parameters.seed)
    evaluation = evaluation_of(pairs, parameters)
    if risk is None:
        return evaluation
    from dbanon.doors.frame_risk import measure_risk

    return replace(
        evaluation,
        risk=measure_risk(risk, original_frame, released_frame, names, report, microdata.entities),
    )


def _require_related(pairs: Pairs, seed: int) -> None:
    """Check that paired rows are closer than random pairs; raises RowsNotAligned."""
    if is_unrelated(pairs, seed):
        raise RowsNotAligned(
            "Original and released rows are paired by position, but are no closer to each other"
            " than rows paired at random.",
            hint=(
                "Put both in one order, or name a `key` of both tables. After anonymize_frame,"
                " pass its `report`."
            ),
        )


def _pair_rows(
    microdata: Microdata,
    released_frame: pd.DataFrame,
    released_index: NDArray[np.int64],
    classes: object,
    tree_sources: Mapping[str, Hierarchy | HierarchySpec],
    *,
    stars_are_suppressed: bool,
) -> Pairs:
    """Pair the originals with their released rows.

    Parameters
    ----------
    microdata : the n originals.
    released_index : int64 (n,), the released row of each original; -1 if suppressed.
    classes : a partition of the originals, or their class labels; None: rows with equal released
        values are a class.
    tree_sources : hierarchies or their specifications, by column.
    stars_are_suppressed : whether rows that are ``*`` in every column count as suppressed.
    """
    names = [attribute.name for attribute in microdata.attributes]
    # From here on, row i of ``released_frame`` belongs to original i. Suppressed originals are
    # paired with row 0, and then marked in ``is_suppressed``.
    released_frame = (
        released_frame[names].iloc[np.maximum(released_index, 0)]
        if len(released_frame)
        else released_frame[names]
    )
    is_suppressed = released_index < 0
    if len(released_frame) and stars_are_suppressed:
        is_suppressed |= is_all_stars(released_frame, names)
    columns = [
        ReleasedValues.of(attribute, released_frame[attribute.name])
        if len(released_frame)
        else ReleasedValues.empty(attribute)
        for attribute in microdata.attributes
    ]
    labels, first_rows = _label_classes(columns, is_suppressed, classes, microdata)
    trees: dict[str, Hierarchy] = dict(build_all(tree_sources, microdata))
    # Text without a hierarchy: any two different values only have the root in common.
    for position, attribute in enumerate(microdata.categorical):
        trees.setdefault(attribute.name, flat_hierarchy(microdata.categories[position]))
    released_columns = [column.to_released_column(first_rows) for column in columns]
    return pairs_of(microdata, Partition(labels), released_columns, trees)


@name_missing_extras()
def as_frames(original: object, released: object) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Convert both tables to data frames; the columns of arrays are named by their index."""
    import pandas as pd

    tables = [as_table(data) for data in (original, released)]
    if is_frame(tables[0]) != is_frame(tables[1]):
        raise InvalidParameter("Give both tables with named columns, or both as arrays.")
    if is_frame(tables[0]):
        return tables[0], tables[1]
    frames = []
    for data in tables:
        try:
            numbers = np.array(data, np.float64)
        except (TypeError, ValueError):
            raise InvalidParameter(
                "The data must be numbers.",
                hint="Give both as data frames, whose columns can hold other values.",
            ) from None
        if numbers.ndim != 2 or not numbers.shape[1]:
            raise InvalidParameter("The data must have two dimensions: records and attributes.")
        names = [f"column {i}" for i in range(numbers.shape[1])]
        frames.append(pd.DataFrame(numbers, columns=names))
    if frames[0].shape[1] != frames[1].shape[1]:
        raise InvalidParameter(
            f"The original has {frames[0].shape[1]} columns, the release {frames[1].shape[1]}."
        )
    return frames[0], frames[1]


def _key_columns(key: str | Sequence[str] | None) -> list[str]:
    """Return the names of the key's columns."""
    return [] if key is None else [key] if isinstance(key, str) else list(key)


def select_columns_to_compare(
    original_frame: pd.DataFrame,
    released_frame: pd.DataFrame,
    quasi_identifiers: Sequence[str] | None,
    key: str | Sequence[str] | None,
) -> list[str]:
    """Return the names of the columns to compare, and check that both tables have them."""
    from dbanon.stores.frame.microdata import require_columns

    key_columns = _key_columns(key)
    if isinstance(quasi_identifiers, str):
        raise InvalidParameter("quasi_identifiers must be a list of names.")
    if quasi_identifiers is None:
        names = [
            name
            for name in original_frame.columns
            if name in released_frame.columns and name not in key_columns
        ]
    else:
        names = list(quasi_identifiers)
    if not all(isinstance(name, str) for name in (*names, *key_columns)):
        raise InvalidParameter(
            "The columns of the frame have names that are not text.",
            hint="Name them first: frame.columns = [...]",
        )
    if not names:
        raise InvalidParameter("The two tables have no column in common.")
    for name in names:
        if names.count(name) > 1 or name in key_columns:
            raise InvalidParameter(f'Column "{name}" is named more than once.')
    for table in (original_frame, released_frame):
        require_columns(table, [*names, *key_columns])
    return names


def _require_key_or_report(key: str | Sequence[str] | None, report: Report | None) -> None:
    """Refuse a key together with a report, and anything else in place of a report."""
    if not (report is None or hasattr(report, "quasi_identifiers")):
        raise InvalidParameter("report must be the report that anonymize_frame returned.")
    if report is not None and key is not None:
        raise InvalidParameter(
            "Rows are paired by a key or by the report: give one of the two, not both."
        )


def _match_rows(
    original_frame: pd.DataFrame,
    released_frame: pd.DataFrame,
    names: Sequence[str],
    key: str | Sequence[str] | None,
    report: Report | None,
) -> NDArray[np.int64]:
    """Find the released row of each original, int64 (n,); -1 if suppressed."""
    import pandas as pd

    from dbanon.stores.frame.conversion import require_not_shuffled, rows_by_report

    if report is not None:
        return rows_by_report(report, original_frame, released_frame, names)
    key_columns = _key_columns(key)
    if not key_columns:
        # ``anonymize_frame`` marks the frames whose rows it shuffled. They have lost their order.
        require_not_shuffled(released_frame)
        if len(original_frame) != len(released_frame):
            raise InvalidParameter(
                f"The original has {len(original_frame)} rows, the release {len(released_frame)}.",
                hint="Rows are paired by their positions; name a `key` to join them by, or pass the"
                " `report` of anonymize_frame.",
            )
        return np.arange(len(original_frame))
    key_indexes = []
    for table_name, table in (("original", original_frame), ("release", released_frame)):
        if table[key_columns].isna().any(axis=None):
            raise InvalidParameter(f"The key of the {table_name} contains NULL.")
        index = (
            pd.MultiIndex.from_frame(table[key_columns])
            if len(key_columns) > 1
            else pd.Index(table[key_columns[0]])
        )
        if not index.is_unique:
            raise InvalidParameter(f"The key of the {table_name} is not unique.")
        key_indexes.append(index)
    original_keys, released_keys = key_indexes
    n_unknown_keys = int((~released_keys.isin(original_keys)).sum())
    if n_unknown_keys:
        raise InvalidParameter(
            f"The release has {n_unknown_keys} rows whose key is not in the original.",
            hint="Both keys must have the same type, and every row must come from the original.",
        )
    # ``get_indexer`` returns -1 for an original without a released row.
    return np.asarray(released_keys.get_indexer(original_keys), np.int64)


def is_all_stars(released_frame: pd.DataFrame, names: Sequence[str]) -> NDArray[np.bool_]:
    """Return which released rows are ``*`` in every column, bool (n,)."""
    all_stars = np.ones(len(released_frame), bool)
    for name in names:
        # Comparing pandas' NA gives NA instead of False.
        values = released_frame[name].to_numpy(object)
        all_stars &= np.array([isinstance(value, str) and value == ANY for value in values], bool)
    return all_stars


class ReleasedValues:
    """The values of a released column by row, as numbers or text.

    Parameters
    ----------
    attribute : name and type of the released values.
    values : float64 (n,), or object (n,) of texts; undefined where missing.
    missing : bool (n,), which values are NULL.
    """

    def __init__(self, attribute: Attribute, values: AnyArray, missing: NDArray[np.bool_]) -> None:
        self.attribute, self.values, self.missing = attribute, values, missing

    @classmethod
    def of(cls, attribute: Attribute, series: pd.Series[Any]) -> ReleasedValues:
        """Read the released values of an attribute, as numbers if the original holds numbers.

        Parameters
        ----------
        attribute : the attribute in the original table.
        series : the released values of this column, (n,), which may also be text.
        """
        from dbanon.stores.frame.microdata import attribute_of, microdata_from_frame

        name, missing = attribute.name, series.isna().to_numpy(bool)
        released_attribute = attribute_of(name, series)
        is_number = attribute.kind.is_numeric and attribute.kind is not Kind.ORDINAL
        has_same_kind = released_attribute.kind is attribute.kind or (
            released_attribute.kind in _NUMBER_KINDS and attribute.kind in _NUMBER_KINDS
        )
        if is_number and missing.all():
            return cls(Attribute(name, Kind.FLOAT), np.zeros(len(series)), missing)
        if is_number and has_same_kind:
            numbers = microdata_from_frame(series.to_frame(name), [name]).numbers[:, 0]
            # Dates and timestamps keep their kind. All other numbers become floats.
            kind = attribute.kind if attribute.kind not in _NUMBER_KINDS else Kind.FLOAT
            return cls(
                Attribute(name, kind, has_time_zone=attribute.has_time_zone),
                np.where(missing, 0.0, numbers),
                missing,
            )
        if is_number and released_attribute.kind is not Kind.CATEGORY:
            raise UnsupportedType(
                f'Column "{name}" is of type {attribute.sql_type or "number"}, and of type'
                f" {released_attribute.sql_type} in the release.",
                hint="Give the released column the type of the original, or make it text.",
            )
        # Mixed columns hold numbers beside "*"; convert the numbers to text without rounding.
        texts = np.array([str(value) for value in series.to_numpy(object)], object)
        return cls(Attribute(name, Kind.CATEGORY), texts, missing)

    @classmethod
    def empty(cls, attribute: Attribute) -> ReleasedValues:
        """Return the values of a release without rows."""
        return cls(Attribute(attribute.name, Kind.FLOAT), np.zeros(0), np.zeros(0, bool))

    @property
    def codes(self) -> NDArray[np.int64]:
        """A code for each value, int64 (n,): 0 for NULL, equal values have the same code."""
        values = self.values.astype(str) if self.values.dtype == object else self.values
        codes = np.unique(values, return_inverse=True)[1].reshape(-1) + 1
        return np.where(self.missing, 0, codes)

    def to_released_column(self, first_rows: NDArray[np.int64]) -> ReleasedColumn:
        """Return the released value of each class.

        Parameters
        ----------
        first_rows : int64 (n_classes,), the index of a row of each class.
        """
        missing = self.missing[first_rows]
        return ReleasedColumn(
            self.attribute, self.values[first_rows], missing if missing.any() else None
        )


def _label_classes(
    columns: Sequence[ReleasedValues],
    is_suppressed: NDArray[np.bool_],
    classes: object,
    microdata: Microdata,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Label each record with its class, and select one row per class.

    Parameters
    ----------
    columns : the released values of each column, for n rows.
    is_suppressed : bool (n,).
    classes : the caller's partition or labels; None: rows with equal released values are a class.

    Returns
    -------
    labels : int32 (n,), -1 if suppressed.
    first_rows : int64 (n_classes,), the index of each class's first row.
    """
    n = microdata.n_records
    labels = np.full(n, SUPPRESSED, np.int32)
    rows = np.flatnonzero(~is_suppressed)
    # Two rows have the same code if all of their released values are equal.
    row_codes = combine_codes([column.codes[rows] for column in columns], len(rows))
    if classes is None:
        row_labels = row_codes
    else:
        class_labels = as_partition(getattr(classes, "labels", classes)).labels
        if len(class_labels) != n:
            raise InvalidParameter(f"The partition has {len(class_labels)} records, the data {n}.")
        has_label = class_labels[rows] >= 0
        rows, row_codes = rows[has_label], row_codes[has_label]
        row_labels = combine_codes([class_labels[rows]], len(rows))
        n_classes = len(np.unique(row_labels))
        if len(np.unique(combine_codes([row_labels, row_codes], len(rows)))) > n_classes:
            raise InvalidParameter(
                "A class is released with different values.",
                hint="Leave `classes` out: then rows with equal released values form a class.",
            )
    first_positions = np.unique(row_labels, return_index=True)[1]
    labels[rows] = row_labels
    return labels, rows[first_positions]


def _convert_parameters(**arguments: Any) -> Parameters:
    """Convert the caller's parameters to the types that the measures take."""
    converted_parameters: KeywordArguments = {}
    for name, value in arguments.items():
        try:
            if name in ("sample", "seed"):
                is_whole = value is None or (not isinstance(value, bool) and int(value) == value)
                converted_parameters[name] = None if value is None else int(value)
                if not is_whole or (value is None and name == "seed"):
                    raise ValueError
            else:
                converted_parameters[name] = tuple(
                    number if isinstance(number, int) else float(number) for number in value
                )
        except (TypeError, ValueError, OverflowError):
            expected = "a whole number" if name in ("sample", "seed") else "numbers"
            raise InvalidParameter(f"{name} must be {expected}.") from None
    return Parameters(**converted_parameters)
