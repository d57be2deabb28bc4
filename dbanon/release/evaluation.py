"""Evaluate a release: measure its information loss and its remaining risk.

A ``ColumnPair`` holds a column's originals and its released values, as numbers, intervals or nodes
of a hierarchy; ``Pairs`` are those of all columns, with the classes.

Released rows have neither the keys nor the order of their originals, so only the run that makes a
release can pair them. A *figure* is the result of a measure: a value, values by column, and a note.
Figures computed here are exact and reveal extreme records; the module ``figures`` computes those
that are published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dbanon.data.grid import value_spacing
from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute, Kind
from dbanon.data.types import JsonMapping, JsonObject, KeywordArguments
from dbanon.data.words import LabelledTextWithHtml
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.leaves import (
    ANY,
    UTC,
    Hierarchies,
    encode_leaves,
    format_as_leaves,
    resolve_hierarchies,
    take_records,
)
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures.attributes import ColumnPair, Intervals, Nodes, Numbers
from dbanon.measures.catalogue import LOSSES, MEASURES, RISKS, evaluate
from dbanon.measures.figure import EvaluationTask, Figure, Parameters, Tick, ignore_progress
from dbanon.measures.pairs import Pairs
from dbanon.recoding import ReleasedColumn
from dbanon.release.words import format_figure

if TYPE_CHECKING:
    from dbanon.release.risk_figures import RiskFigures

# The names that measures have in the paper on the evaluation model EM4ADOM, by their names in
# dbanon.
_EM4ADOM = {
    "distance_loss": "IL_h",
    "deviation_loss": "IL_1",
    "moment_loss": "IL_2",
    "structure_loss": "IL_3",
    "statistics_loss": "IL_s",
    "overall_loss": "IL",
    "entropy_change": "IL_R",
    "nearest_linkage_risk": "DLD",
    "interval_risk": "ID",
    "disclosure_risk": "DR",
    "score": "score",
}


@dataclass(frozen=True, repr=False)
class Evaluation(LabelledTextWithHtml):
    """The values of the measures of a release, without data on single records.

    Parameters
    ----------
    rows, suppressed : number of released and of withheld records. The figures describe only
        released records.
    suppressed_cells : number of cells of released rows that are NULL only in the release.
    losses, risks : values by measure, in the catalogue's order; None if a measure does not apply.
    columns : values by column, then by measure.
    parts : by measure, then by name: numbers from which its value is computed, or additional ones.
    em4adom : values of measures under the names of the paper on EM4ADOM.
    parameters : the parameters of the measures.
    notes : by measure, why it has no value, or how to read it.
    risk : the disclosure risk of the originals and of the release, for the controller of the data
        and not for publication; None unless requested.
    """

    rows: int
    suppressed: int
    losses: Mapping[str, float | None]
    risks: Mapping[str, float | None]
    columns: Mapping[str, Mapping[str, float]]
    parts: Mapping[str, Mapping[str, float]]
    em4adom: Mapping[str, float | None]
    parameters: JsonMapping
    notes: Mapping[str, str]
    suppressed_cells: int = 0
    risk: RiskFigures | None = None

    def pairs(self) -> list[tuple[str, str]]:
        """Return losses and risks, but not columns, as pairs of label and text for display."""
        display_rows = [("rows", f"{self.rows}, and {self.suppressed} suppressed")]
        if self.suppressed_cells:
            display_rows.append(("suppressed cells", str(self.suppressed_cells)))
        for kind, figures in (("losses", self.losses), ("risks", self.risks)):
            display_rows.append((kind, ""))
            for name, value in figures.items():
                note = self.notes.get(name, "")
                text = note if value is None else format_figure(value, note)
                display_rows.append((f"  {name}", text))
        if self.risk is not None:
            display_rows.append(("risk of the sample", "before, after"))
            display_rows += [
                (f"  {label}", f"{before}, {after}")
                for label, before, after in self.risk.table_rows()
            ]
            display_rows += [(f"  {label}", text) for label, text in self.risk.pairs()]
        return display_rows

    def to_dict(self) -> JsonObject:
        """Return the evaluation as JSON values."""
        values: JsonObject = {"rows": self.rows, "suppressed": self.suppressed}
        if self.suppressed_cells:
            values["suppressed_cells"] = self.suppressed_cells
        for name in ("losses", "risks", "em4adom", "parameters", "notes"):
            values[name] = dict(getattr(self, name))
        for name in ("columns", "parts"):
            values[name] = {key: dict(value) for key, value in getattr(self, name).items()}
        return values if self.risk is None else {**values, "risk": self.risk.to_dict()}


def evaluation_of(
    pairs: Pairs,
    parameters: Parameters | None = None,
    names: Iterable[str] | None = None,
    tick: Tick = ignore_progress,
) -> Evaluation:
    """Evaluate pairs of originals and released values.

    Parameters
    ----------
    parameters : the parameters of the measures; None for the defaults.
    names : the measures to compute; None for all.
    tick : called with the share of the work that is done, 0 to 1.

    Raises
    ------
    InvalidParameter : a name is not that of a measure.
    """
    parameters = parameters or Parameters()
    figures = evaluate(EvaluationTask(pairs, parameters, tick=tick), names)
    return evaluation_of_figures(pairs, figures, parameters)


def evaluation_of_figures(
    pairs: Pairs, figures: Mapping[str, Figure], parameters: Parameters
) -> Evaluation:
    """Build an evaluation from figures by measure, computed with these parameters."""
    columns: dict[str, dict[str, float]] = {column.name: {} for column in pairs.columns}
    for name, figure in figures.items():
        for column, value in figure.columns.items():
            columns[column][name] = value
    return Evaluation(
        rows=pairs.n,
        suppressed=pairs.n_suppressed,
        losses=MappingProxyType({n: f.value for n, f in figures.items() if n in LOSSES}),
        risks=MappingProxyType({n: f.value for n, f in figures.items() if n in RISKS}),
        columns=MappingProxyType(columns),
        parts=MappingProxyType({n: f.parts for n, f in figures.items() if f.parts}),
        em4adom=MappingProxyType(_values_by_em4adom_name(figures)),
        parameters=MappingProxyType(_parameters_as_json(parameters)),
        notes=MappingProxyType({n: f.note for n, f in figures.items() if f.note}),
        suppressed_cells=pairs.suppressed_cells,
    )


def _values_by_em4adom_name(figures: Mapping[str, Figure]) -> dict[str, float | None]:
    """Return the values of figures by their names in the paper on EM4ADOM."""
    values = {
        _EM4ADOM[name]: figures[name].value
        for name in MEASURES
        if name in figures.keys() & _EM4ADOM
    }
    # The paper's ZIL is not a measure here, but a part of one: the sum whose mean is direct_loss.
    if "direct_loss" in figures:
        values["ZIL"] = figures["direct_loss"].parts.get("zil")
    return values


def _parameters_as_json(parameters: Parameters) -> JsonObject:
    """Return the parameters as JSON values, with lists for tuples."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(parameters).items()
    }


def pairs_of(
    microdata: Microdata,
    partition: Partition,
    columns: Iterable[ReleasedColumn],
    hierarchies: Hierarchies | None = None,
    column_statistics: ColumnStatistics | None = None,
) -> Pairs:
    """Pair originals with their written values.

    Parameters
    ----------
    microdata, partition : all records, including withheld ones, and their classes.
    columns : the released columns as written, after rounding.
    hierarchies : hierarchies built from the released records, by column.
    column_statistics : those of the released records; None to compute them.

    Raises
    ------
    InvalidParameter : a label is neither in its hierarchy nor an interval, or the partition and the
        data differ in their number of records.
    """
    if len(partition.labels) != microdata.n_records:
        raise InvalidParameter(
            f"The partition has {len(partition.labels)} records, the data {microdata.n_records}."
        )
    # Records that are in no class, and records that were withheld before clustering.
    n_withheld = partition.n_suppressed + microdata.n_withheld
    if partition.n_suppressed:
        records = np.flatnonzero(partition.labels >= 0)
        microdata, partition = take_records(microdata, records), partition.take(records)
    column_statistics = column_statistics or ColumnStatistics.of(microdata)
    trees = resolve_hierarchies(microdata.attributes, hierarchies or {}, column_statistics)
    columns_and_counts = [
        _cover_suppressed(column, partition)
        for column in pair_columns(microdata, column_statistics, trees, columns)
    ]
    return Pairs(
        tuple(column for column, _ in columns_and_counts),
        partition,
        n_suppressed=n_withheld,
        strata=microdata.strata,
        entities=microdata.entities,
        suppressed_cells=sum(n_suppressed for _, n_suppressed in columns_and_counts),
    )


def _cover_suppressed(column: ColumnPair, partition: Partition) -> tuple[ColumnPair, int]:
    """Replace suppressed cells by labels that cover every value of the column.

    A suppressed cell is NULL in the release, but not in the source. Readers cannot distinguish it
    from other NULLs, so all NULLs of a column with suppressed cells are replaced. Also return the
    number of suppressed cells.
    """
    is_released_null = column.released_nulls
    if is_released_null is None:
        return column, 0
    is_suppressed = is_released_null[partition.labels]
    if column.original_nulls is not None:
        # Also NULL in the source, so nothing was suppressed.
        is_suppressed &= ~column.original_nulls
    if not is_suppressed.any():
        return column, 0
    return cover_hidden_values(column, is_released_null), int(is_suppressed.sum())


def cover_hidden_values(column: ColumnPair, hidden: NDArray[np.bool_]) -> ColumnPair:
    """Replace the released values of some classes by labels that cover every value of the column.

    ``hidden``, bool (m,), marks these classes among all m classes.
    """
    if isinstance(column, Nodes):
        # Node 0 is the root, which covers every leaf.
        nodes = np.where(hidden, 0, column.released).astype(np.int32)
        return replace(column, released=nodes, suppressed=hidden)
    assert isinstance(column, (Numbers, Intervals))
    # A released number is an interval of one value.
    low, high = (column.released,) * 2 if isinstance(column, Numbers) else (column.low, column.high)
    return Intervals(
        name=column.name,
        suppressed=hidden,
        original=column.original,
        scale=column.scale,
        valid=column.valid,
        is_ordinal=column.is_ordinal,
        ranks=column.ranks,
        low=np.where(hidden, column.scale.least, low),
        high=np.where(hidden, column.scale.most, high),
    )


def pair_columns(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    trees: Iterable[Hierarchy | None],
    columns: Iterable[ReleasedColumn],
) -> tuple[ColumnPair, ...]:
    """Pair each attribute's originals with its written values.

    Parameters
    ----------
    microdata : the records to pair.
    column_statistics : those of the records.
    trees : for each attribute, its hierarchy or None.
    columns : the released columns as written.
    """
    released_columns: dict[str, list[ReleasedColumn]] = {}
    for column in columns:
        released_columns.setdefault(column.quasi_identifier, []).append(column)
    return tuple(
        _pair_column(
            microdata, column_statistics, attribute, tree, released_columns[attribute.name]
        )
        for attribute, tree in zip(microdata.attributes, trees, strict=True)
    )


def _pair_column(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    attribute: Attribute,
    tree: Hierarchy | None,
    released: list[ReleasedColumn],
) -> ColumnPair:
    """Pair an attribute's originals with its released values.

    Parameters
    ----------
    tree : the attribute's hierarchy; None if its values are numbers without a hierarchy.
    released : the released column, or two columns with the lower and the upper bounds.
    """
    # ``valid`` is False for originals that are NULL, ``missing`` True for released NULLs. Either is
    # None if there are no NULLs.
    valid, first_column = microdata.valid_column(attribute.name), released[0]
    missing = first_column.missing
    if missing is not None and not missing.any():
        missing = None
    if tree is not None:
        leaves = encode_leaves(microdata, attribute, tree)
        labels = _tree_labels(first_column, tree)
        released_nodes = find_nodes(labels, tree, attribute.name)
        return Nodes(
            name=attribute.name,
            original=leaves if valid is None else np.where(valid, leaves, -1).astype(np.int32),
            released=released_nodes
            if missing is None
            else np.where(missing, -1, released_nodes).astype(np.int32),
            tree=tree,
        )
    scale = column_statistics.scales[attribute.name]
    common_fields: KeywordArguments = {
        "name": attribute.name,
        "original": microdata.numbers[:, microdata.numeric.index(attribute)],
        "scale": scale,
        "valid": valid,
        "released_valid": None if missing is None else ~missing,
        "is_ordinal": attribute.kind is Kind.ORDINAL,
        # The ranks that occur in the table: distances of ordinal values count these alone.
        "ranks": column_statistics.ranks.get(attribute.name),
    }
    # An attribute has one column of numbers or intervals, or two columns with the lower and the
    # upper bounds. One column is both the first and the last.
    written_columns = [written for column in released for written in column.written_columns]
    low, first_column_high = _interval_ends(written_columns[0], attribute, scale)
    _, high = _interval_ends(written_columns[-1], attribute, scale)
    # Open intervals end before their upper bound: at the greatest value below it.
    if len(written_columns) == 2 and not first_column.is_closed:
        high = np.maximum(low, high - value_spacing(attribute, scale))
    is_number = (low == first_column_high) | (False if missing is None else missing)
    if len(written_columns) == 1 and is_number.all():
        return Numbers(**common_fields, released=low)
    return Intervals(**common_fields, low=low, high=high)


def _values_or_missing(column: ReleasedColumn) -> Iterable[tuple[bool, object]]:
    """Return pairs of whether a released value is NULL, and the value."""
    missing = np.zeros(len(column.values), bool) if column.missing is None else column.missing
    return zip(missing.tolist(), column.values.tolist(), strict=True)


def _tree_labels(column: ReleasedColumn, tree: Hierarchy) -> list[str]:
    """Return each released value's label: numbers as leaf texts, NULL as the root's label."""
    if column.attribute.kind.is_numeric:
        column = replace(
            column,
            values=np.array(format_as_leaves(tree, column.as_float(), column.attribute), object),
        )
    return [
        tree.labels[0] if is_missing else str(label)
        for is_missing, label in _values_or_missing(column)
    ]


def _interval_ends(
    column: ReleasedColumn, attribute: Attribute, scale: Scale
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least and the greatest number that each released value covers."""
    if column.attribute.kind.is_numeric and column.values.dtype != object:
        numbers = column.as_float()
        return numbers, numbers
    if not any(isinstance(value, str) for value in column.values.tolist()):
        numbers = column.as_float()
        return numbers, numbers
    # If a value is NULL, its text is arbitrary: replace it by a label that can always be parsed.
    return parse_intervals(
        ["*" if is_missing else str(label) for is_missing, label in _values_or_missing(column)],
        attribute,
        scale,
    )


def parse_intervals(
    labels: Sequence[str], attribute: Attribute, scale: Scale
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Parse labels; return the lower and the upper ends of their intervals, float64 (m,) each.

    A label is ``[a, b)``, ``[a, b]``, a single value, or ``*`` for the whole range. The upper end
    of ``[a, b)`` is the greatest value below b that the column can have. ``[a, b[`` is ARX's
    notation for the same. Labels of bands are ``a-b``, ``a to b``, ``<b`` and ``a+``; the last two
    reach to the end of the range.

    Parameters
    ----------
    labels : m texts, with values written as leaves of a hierarchy.

    Raises
    ------
    InvalidParameter : a label has another form.
    """
    ends_of_label: dict[str, tuple[float, float] | None] = {ANY: (scale.least, scale.most)}
    for label in set(labels) - {ANY}:
        ends_of_label[label] = (
            _parse_label(label, attribute, value_spacing(attribute, scale))
            or _parse_band(label, attribute, scale)
            if attribute.bands is None
            else attribute.bands.parse_label(label)
        )
    n_invalid = sum(ends is None for ends in ends_of_label.values())
    if n_invalid:
        raise InvalidParameter(
            f'Column "{attribute.name}" holds {n_invalid} labels that are neither a value nor an'
            " interval.",
            hint="Name the hierarchy that the labels come from: `hierarchies`.",
        )
    label_ends = np.array([ends_of_label[label] for label in labels], np.float64).reshape(-1, 2)
    return label_ends[:, 0].copy(), label_ends[:, 1].copy()


def find_nodes(labels: Sequence[str], tree: Hierarchy, name: str) -> NDArray[np.int32]:
    """Return the hierarchy's node of each label, int32 (m,).

    Raises
    ------
    InvalidParameter : a label is not in the hierarchy.
    """
    # ``*`` stands for the root, unless it is a label of the hierarchy.
    node_of_label = {ANY: 0} | {label: tree.node(label) for label in tree.labels}
    n_unknown = len(set(labels) - set(node_of_label))
    if n_unknown:
        raise InvalidParameter(
            f'Column "{name}" holds {n_unknown} labels that are not in its hierarchy.'
        )
    return np.array([node_of_label[label] for label in labels], np.int32)


def _parse_label(label: str, attribute: Attribute, unit: float) -> tuple[float, float] | None:
    """Parse a label as ``parse_intervals`` describes; None if it has another form.

    ``unit`` is the smallest difference between two values of the column.
    """
    if (value := _parse_number(label, attribute)) is not None:
        return value, value
    if label[:1] != "[" or label[-1:] not in ("]", ")", "["):
        return None
    inner = label[1:-1]
    separator = inner.find(", ")
    # Ordinal values may contain the separator, so try to split at each occurrence.
    while separator >= 0:
        low = _parse_number(inner[:separator], attribute)
        high = _parse_number(inner[separator + 2 :], attribute)
        if low is not None and high is not None:
            return low, high if label[-1] == "]" else max(low, high - unit)
        separator = inner.find(", ", separator + 1)
    return None


def _parse_band(label: str, attribute: Attribute, scale: Scale) -> tuple[float, float] | None:
    """Parse the label of a band of numbers; None if it has another form.

    An open band reaches to the end of the column's range.
    """
    if attribute.kind not in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT):
        return None
    unit = value_spacing(attribute, scale)
    if label.startswith("<") and (high := _parse_number(label[1:], attribute)) is not None:
        return min(scale.least, high - unit), high - unit
    if label.endswith("+") and (low := _parse_number(label[:-1], attribute)) is not None:
        return low, max(low, scale.most)
    low_text, _, high_text = label.partition(" to " if " to " in label else "-")
    low, high = (_parse_number(text, attribute) for text in (low_text, high_text))
    return None if low is None or high is None or low > high else (low, high)


def _parse_number(text: str, attribute: Attribute) -> float | None:
    """Parse a text as ``format_number`` writes it; None if it is not such a text."""
    try:
        if attribute.kind is Kind.ORDINAL:
            return float(attribute.order.index(text))
        if attribute.kind is Kind.DATE:
            return float(np.datetime64(text, "D").astype(np.int64))
        if attribute.kind is Kind.TIMESTAMP:
            local_text = text.removesuffix(UTC) if attribute.has_time_zone else text
            return float(np.datetime64(local_text.replace(" ", "T"), "us").astype(np.int64))
        number = float(text)
    except ValueError:
        return None
    return number if np.isfinite(number) else None
