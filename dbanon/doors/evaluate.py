"""The Python API for evaluation: an original table and a released one, from any tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.option import parameter
from dbanon.data.partition import SUPPRESSED, Partition
from dbanon.data.schema import Attribute, Kind
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
from dbanon.hierarchy.tree import Hierarchy, flat
from dbanon.job.guarantee_names import guarantee_from_ledger
from dbanon.job.policy import Policy
from dbanon.measures.figure import Parameters
from dbanon.measures.pairs import Pairs, combine_codes
from dbanon.recoding import ReleasedColumn
from dbanon.release.alignment import is_unrelated
from dbanon.release.evaluation import Evaluation, evaluation_of, pairs_of

if TYPE_CHECKING:
    import pandas as pd

    from dbanon.release.report import Report

_PLAIN = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)


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
) -> Evaluation:
    """Measure the loss and remaining risk of a released table, whatever tool made it.

    Rows are paired by their position, by a key, or by the report of ``anonymize_frame``. A released
    row with ``*`` in every quasi-identifier counts as suppressed, and so does an original whose key
    is in no released row. For releases in a database, which have neither order nor keys, use
    ``evaluate_release``. Rows paired by position are tested against random pairs, see
    docs/evaluation.md.

    Parameters
    ----------
    original, released : (n, p) numbers both, or tables both, as ``anonymize_frame`` takes them.
        Intervals are text as in ``[20, 30)``, and labels those of ``hierarchies``. NaN is NULL.
    quasi_identifiers : the columns to compare; None for all that both tables have, except the
        key.
    key : columns of both tables that pair the rows, unique and without NULL; None for their places.
    report : that of the same call of ``anonymize_frame``, which knows in memory which row became
        which, and whose columns, orders, strata and persons are taken.
    classes : the label of each original, or a partition; None: rows that are released alike.
    orders : by column of text, its values from the lowest to the highest.
    hierarchies : by column, as in ``anonymize_frame``.
    lambdas, taus, gammas : weights of IL_1 to IL_3, of DLD and ID, and of IL and DR.
    interval_percents : the widths of interval disclosure.
    sample : how many records are linked, drawn by ``seed``; None for all where that is affordable.

    Raises
    ------
    InvalidParameter : the tables cannot be paired, a label is unknown, or a class is released with
        different values.
    RowsNotAligned : rows at the same place do not belong together, or the report is of others.
    ColumnNotFound : a table has no column of a name.
    UnsupportedType : a column is released as another type that is not text.
    """
    _require_one_way(key, report)
    before, after = as_frames(original, released)
    if report is not None:
        quasi_identifiers = quasi_identifiers or report.quasi_identifiers
        orders = orders or report.arguments["orders"]
    names = columns_to_compare(before, after, quasi_identifiers, key)
    released_index = _match_rows(before, after, names, key, report)
    tree_sources = parse_all(hierarchies, files=True)
    parameters = _parameters(
        lambdas=lambdas,
        taus=taus,
        gammas=gammas,
        interval_percents=interval_percents,
        sample=sample,
        seed=seed,
    )
    from dbanon.stores.frame.microdata import microdata_from_frame, with_groups

    microdata = microdata_from_frame(
        before, names, orders=parameter(Policy, "orders").check(orders)
    )
    if not microdata.n_records:
        raise TooFewRecords("There are no records.")
    if report is not None:
        groups = guarantee_from_ledger(report.k_requested, report.arguments)
        microdata = with_groups(before, microdata, groups.by, groups.persons)
    # dbanon leaves withheld rows out, so a row of stars is a fully generalized class.
    pairs = _pairs(microdata, after, released_index, classes, tree_sources, stars=report is None)
    if key is None and report is None:
        _require_related(pairs, parameters.seed)
    return evaluation_of(pairs, parameters)


def _require_related(pairs: Pairs, seed: int) -> None:
    """Refuse rows in random order; raises RowsNotAligned."""
    if is_unrelated(pairs, seed):
        raise RowsNotAligned(
            "Original and released rows are paired by position, but are no closer to each other"
            " than rows paired at random.",
            hint=(
                "Put both in one order, or name a `key` of both tables. After anonymize_frame,"
                " give its `report`."
            ),
        )


def _pairs(
    microdata: Microdata,
    after: pd.DataFrame,
    released_index: NDArray[np.int64],
    classes: Any,
    tree_sources: Mapping[str, Hierarchy | HierarchySpec],
    *,
    stars: bool,
) -> Pairs:
    """Pair the originals with their released rows.

    Parameters
    ----------
    released_index : int64 (n,), the released row of each original; -1 if suppressed.
    stars : whether rows of stars alone count as suppressed.
    """
    names = [attribute.name for attribute in microdata.attributes]
    after = after[names].iloc[np.maximum(released_index, 0)] if len(after) else after[names]
    suppressed = released_index < 0
    if len(after) and stars:
        suppressed |= is_all_stars(after, names)
    columns = [
        ReleasedValues.of(attribute, after[attribute.name])
        if len(after)
        else ReleasedValues.none(attribute)
        for attribute in microdata.attributes
    ]
    labels, firsts = _classes(columns, suppressed, classes, microdata)
    trees: dict[str, Hierarchy] = dict(build_all(tree_sources, microdata))
    for position, attribute in enumerate(microdata.categorical):
        trees.setdefault(attribute.name, flat(microdata.categories[position]))
    released_columns = [column.at(firsts) for column in columns]
    return pairs_of(microdata, Partition(labels), released_columns, trees)


@name_missing_extras()
def as_frames(original: Any, released: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Convert both tables to data frames; columns of arrays are named by their index."""
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


def _keys(key: str | Sequence[str] | None) -> list[str]:
    return [] if key is None else [key] if isinstance(key, str) else list(key)


def columns_to_compare(
    before: pd.DataFrame,
    after: pd.DataFrame,
    quasi_identifiers: Sequence[str] | None,
    key: str | Sequence[str] | None,
) -> list[str]:
    from dbanon.stores.frame.microdata import require_columns

    keys = _keys(key)
    if isinstance(quasi_identifiers, str):
        raise InvalidParameter("quasi_identifiers must be a list of names.")
    if quasi_identifiers is None:
        names = [name for name in before.columns if name in after.columns and name not in keys]
    else:
        names = list(quasi_identifiers)
    if not all(isinstance(name, str) for name in (*names, *keys)):
        raise InvalidParameter(
            "The columns of the frame have names that are not text.",
            hint="Name them first: frame.columns = [...]",
        )
    if not names:
        raise InvalidParameter("The two tables have no column in common.")
    for name in names:
        if names.count(name) > 1 or name in keys:
            raise InvalidParameter(f'Column "{name}" is named more than once.')
    for table in (before, after):
        require_columns(table, [*names, *keys])
    return names


def _require_one_way(key: str | Sequence[str] | None, report: Report | None) -> None:
    """Check that rows are paired by at most one of a key and an original report object."""
    if not (report is None or hasattr(report, "quasi_identifiers")):
        raise InvalidParameter("report must be the report that anonymize_frame returned.")
    if report is not None and key is not None:
        raise InvalidParameter(
            "Rows are paired by a key or by the report: give one of the two, not both."
        )


def _match_rows(
    before: pd.DataFrame,
    after: pd.DataFrame,
    names: Sequence[str],
    key: str | Sequence[str] | None,
    report: Report | None,
) -> NDArray[np.int64]:
    """Find the released row of each original, int64 (n,); -1 if suppressed."""
    import pandas as pd

    from dbanon.stores.frame.conversion import require_not_shuffled, rows_by_report

    if report is not None:
        return rows_by_report(report, before, after, names)
    keys = _keys(key)
    if not keys:
        require_not_shuffled(after)
        if len(before) != len(after):
            raise InvalidParameter(
                f"The original has {len(before)} rows, the release {len(after)}.",
                hint="Rows are paired by their places; name a `key` to join them by, or give the"
                " `report` of anonymize_frame.",
            )
        return np.arange(len(before))
    indices = []
    for title, table in (("original", before), ("release", after)):
        if table[keys].isna().any(axis=None):
            raise InvalidParameter(f"The key of the {title} holds NULL.")
        index = pd.MultiIndex.from_frame(table[keys]) if len(keys) > 1 else pd.Index(table[keys[0]])
        if not index.is_unique:
            raise InvalidParameter(f"The key of the {title} is not unique.")
        indices.append(index)
    strangers = int((~indices[1].isin(indices[0])).sum())
    if strangers:
        raise InvalidParameter(
            f"The release has {strangers} rows whose key is not in the original.",
            hint="Both keys must have the same type, and every row must come from the original.",
        )
    return np.asarray(indices[1].get_indexer(indices[0]), np.int64)


def is_all_stars(after: pd.DataFrame, names: Sequence[str]) -> NDArray[np.bool_]:
    """Return which released rows are ``*`` in every column, bool (n,)."""
    all_stars = np.ones(len(after), bool)
    for name in names:
        # Comparing pandas' NA gives NA instead of False.
        values = after[name].to_numpy(object)
        all_stars &= np.array([isinstance(value, str) and value == ANY for value in values], bool)
    return all_stars


class ReleasedValues:
    """The values of a released column by row, as numbers or text.

    Parameters
    ----------
    values : float64 (n,), or object (n,) of texts; undefined where missing.
    missing : bool (n,).
    """

    def __init__(
        self, attribute: Attribute, values: NDArray[Any], missing: NDArray[np.bool_]
    ) -> None:
        self.attribute, self.values, self.missing = attribute, values, missing

    @classmethod
    def of(cls, attribute: Attribute, series: pd.Series[Any]) -> ReleasedValues:
        """Read the released values of an attribute."""
        from dbanon.stores.frame.microdata import attribute_of, microdata_from_frame

        name, missing = attribute.name, series.isna().to_numpy(bool)
        released_attribute = attribute_of(name, series)
        number = attribute.kind.is_numeric and attribute.kind is not Kind.ORDINAL
        same_kind = released_attribute.kind is attribute.kind or (
            released_attribute.kind in _PLAIN and attribute.kind in _PLAIN
        )
        if number and missing.all():
            return cls(Attribute(name, Kind.FLOAT), np.zeros(len(series)), missing)
        if number and same_kind:
            numbers = microdata_from_frame(series.to_frame(name), [name]).numbers[:, 0]
            kind = attribute.kind if attribute.kind not in _PLAIN else Kind.FLOAT
            return cls(
                Attribute(name, kind, has_time_zone=attribute.has_time_zone),
                np.where(missing, 0.0, numbers),
                missing,
            )
        if number and released_attribute.kind is not Kind.CATEGORY:
            raise UnsupportedType(
                f'Column "{name}" is of type {attribute.sql_type or "number"}, and of type'
                f" {released_attribute.sql_type} in the release.",
                hint="Give the released column the type of the original, or make it text.",
            )
        # Numbers among texts are spelled as they are: mixed columns hold values beside "*".
        texts = np.array([str(value) for value in series.to_numpy(object)], object)
        return cls(Attribute(name, Kind.CATEGORY), texts, missing)

    @classmethod
    def none(cls, attribute: Attribute) -> ReleasedValues:
        """Of a release without rows."""
        return cls(Attribute(attribute.name, Kind.FLOAT), np.zeros(0), np.zeros(0, bool))

    @property
    def codes(self) -> NDArray[np.int64]:
        """An integer per distinct value, 0 for NULL, int64 (n,)."""
        values = self.values.astype(str) if self.values.dtype == object else self.values
        codes = np.unique(values, return_inverse=True)[1].reshape(-1) + 1
        return np.where(self.missing, 0, codes)

    def at(self, rows: NDArray[np.int64]) -> ReleasedColumn:
        """Return the column of these rows, one row per class."""
        missing = self.missing[rows]
        return ReleasedColumn(self.attribute, self.values[rows], missing if missing.any() else None)


def _classes(
    columns: Sequence[ReleasedValues],
    suppressed: NDArray[np.bool_],
    classes: Any,
    microdata: Microdata,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the class of each record, int32 (n,), and the index of one row per class."""
    n = microdata.n_records
    labels = np.full(n, SUPPRESSED, np.int32)
    rows = np.flatnonzero(~suppressed)
    released_values = combine_codes([column.codes[rows] for column in columns], len(rows))
    if classes is None:
        labels_of_rows = released_values
    else:
        given_labels = as_partition(getattr(classes, "labels", classes)).labels
        if len(given_labels) != n:
            raise InvalidParameter(f"The partition has {len(given_labels)} records, the data {n}.")
        labelled = given_labels[rows] >= 0
        rows, released_values = rows[labelled], released_values[labelled]
        labels_of_rows = combine_codes([given_labels[rows]], len(rows))
        if len(np.unique(combine_codes([labels_of_rows, released_values], len(rows)))) > len(
            np.unique(labels_of_rows)
        ):
            raise InvalidParameter(
                "A class is released with different values.",
                hint="Leave `classes` out: rows that are released alike are the classes then.",
            )
    firsts = np.unique(labels_of_rows, return_index=True)[1]
    labels[rows] = labels_of_rows
    return labels, rows[firsts]


def _parameters(**arguments: Any) -> Parameters:
    """Convert the caller's parameters to the types that the measures take."""
    converted: dict[str, Any] = {}
    for name, value in arguments.items():
        try:
            if name in ("sample", "seed"):
                is_whole = value is None or (not isinstance(value, bool) and int(value) == value)
                converted[name] = None if value is None else int(value)
                if not is_whole or (value is None and name == "seed"):
                    raise ValueError
            else:
                converted[name] = tuple(
                    part if isinstance(part, int) else float(part) for part in value
                )
        except (TypeError, ValueError, OverflowError):
            kind = "a whole number" if name in ("sample", "seed") else "numbers"
            raise InvalidParameter(f"{name} must be {kind}.") from None
    return Parameters(**converted)
