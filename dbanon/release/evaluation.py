"""Evaluation: what a release lost and what it still risks, in figures.

A release has neither keys nor order: original and released values are paired only here, inside the
run that makes it. Figures here are exact, and reveal extreme records: ``figures`` has the published
ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.grid import unit_of
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute, Kind
from dbanon.data.words import LabelledTextWithCard
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.leaves import (
    ANY,
    UTC,
    Hierarchies,
    leaf_codes,
    take_records,
    texts_in,
    trees_of,
)
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures.attributes import ColumnPair, Intervals, Nodes, Numbers
from dbanon.measures.catalogue import LOSSES, MEASURES, RISKS, evaluate
from dbanon.measures.figure import EvaluationTask, Figure, Parameters, Tick, ignore_progress
from dbanon.measures.pairs import Pairs
from dbanon.recoding import ReleasedColumn
from dbanon.release.words import format_figure

# The names of EM4ADOM figures in its paper, without those that are parts of others.
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
class Evaluation(LabelledTextWithCard):
    """Figures of a release as a whole, without arrays of records.

    Parameters
    ----------
    rows, suppressed : the number of records that the figures describe, and of those withheld.
    suppressed_cells : the number of cells of ``rows`` that are NULL only in the release.
    losses, risks : by measure, in the catalogue's order; None where a figure has no meaning.
    columns : by column, then by measure.
    parts : by measure, the parts that its figure consists of, or further ones.
    em4adom : the figures of that model under their original names.
    parameters : the parameters of the measures.
    notes : by measure, why there is no figure, or how to read it.
    """

    rows: int
    suppressed: int
    losses: Mapping[str, float | None]
    risks: Mapping[str, float | None]
    columns: Mapping[str, Mapping[str, float]]
    parts: Mapping[str, Mapping[str, float]]
    em4adom: Mapping[str, float | None]
    parameters: Mapping[str, Any]
    notes: Mapping[str, str]
    suppressed_cells: int = 0

    def pairs(self) -> list[tuple[str, str]]:
        """Losses and risks as pairs of label and text, for people, without columns."""
        pairs = [("rows", f"{self.rows}, and {self.suppressed} suppressed")]
        if self.suppressed_cells:
            pairs.append(("suppressed cells", str(self.suppressed_cells)))
        for kind, figures in (("losses", self.losses), ("risks", self.risks)):
            pairs.append((kind, ""))
            for name, value in figures.items():
                note = self.notes.get(name, "")
                pairs.append((f"  {name}", note if value is None else format_figure(value, note)))
        return pairs

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as plain values, for JSON."""
        plain: dict[str, Any] = {"rows": self.rows, "suppressed": self.suppressed}
        if self.suppressed_cells:
            plain["suppressed_cells"] = self.suppressed_cells
        for name in ("losses", "risks", "em4adom", "parameters", "notes"):
            plain[name] = dict(getattr(self, name))
        for name in ("columns", "parts"):
            plain[name] = {key: dict(value) for key, value in getattr(self, name).items()}
        return plain


def evaluation_of(
    pairs: Pairs,
    parameters: Parameters | None = None,
    names: Iterable[str] | None = None,
    tick: Tick = ignore_progress,
) -> Evaluation:
    """The figures of these measures, all by default.

    Raises
    ------
    InvalidParameter : a name is not that of a measure.
    """
    chosen = parameters or Parameters()
    return evaluation_of_figures(
        pairs, evaluate(EvaluationTask(pairs, chosen, tick=tick), names), chosen
    )


def evaluation_of_figures(
    pairs: Pairs, figures: Mapping[str, Figure], parameters: Parameters
) -> Evaluation:
    """Collect the figures of measures, found with these parameters, into an evaluation."""
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
        em4adom=MappingProxyType(_em4adom(figures)),
        parameters=MappingProxyType(_plain(parameters)),
        notes=MappingProxyType({n: f.note for n, f in figures.items() if f.note}),
        suppressed_cells=pairs.suppressed_cells,
    )


def _em4adom(figures: Mapping[str, Figure]) -> dict[str, float | None]:
    figures_by_name = {
        _EM4ADOM[name]: figures[name].value
        for name in MEASURES
        if name in figures.keys() & _EM4ADOM
    }
    if "direct_loss" in figures:
        figures_by_name["ZIL"] = figures["direct_loss"].parts.get("zil")
    return figures_by_name


def _plain(parameters: Parameters) -> dict[str, Any]:
    """Tuples as lists, as JSON has them."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(parameters).items()
    }


def pairs_of(
    microdata: Microdata,
    partition: Partition,
    columns: Iterable[ReleasedColumn],
    hierarchies: Hierarchies | None = None,
    measures: Measures | None = None,
) -> Pairs:
    """Pair originals with their written values.

    Parameters
    ----------
    microdata, partition : all records, suppressed ones too.
    columns : as they are written: rounded and spelled.
    hierarchies : those of the released records, by column.
    measures : of the released records; None to find them here.

    Raises
    ------
    InvalidParameter : a label is neither in its hierarchy nor an interval, or the partition has
        another number of records than the data.
    """
    if len(partition.labels) != microdata.n_records:
        raise InvalidParameter(
            f"The partition has {len(partition.labels)} records, the data {microdata.n_records}."
        )
    suppressed = partition.n_suppressed + microdata.n_withheld
    if partition.n_suppressed:
        records = np.flatnonzero(partition.labels >= 0)
        microdata, partition = take_records(microdata, records), partition.of(records)
    measures = measures or Measures.of(microdata)
    trees = trees_of(microdata.attributes, hierarchies or {}, measures)
    pairs = [
        _with_suppressed(column, partition)
        for column in columns_of(microdata, measures, trees, columns)
    ]
    return Pairs(
        tuple(column for column, _ in pairs),
        partition,
        suppressed,
        microdata.strata,
        microdata.entities,
        sum(cells for _, cells in pairs),
    )


def _with_suppressed(column: ColumnPair, partition: Partition) -> tuple[ColumnPair, int]:
    """Let suppressed cells stand for any value; return the column and the number of these cells.

    A suppressed cell is NULL in the release, but not in the original. Readers cannot tell it from
    other NULLs. So in a column with such cells, all NULLs stand for any value.
    """
    hidden = column.released_nulls
    if hidden is None:
        return column, 0
    cells = hidden[partition.labels]
    if column.original_nulls is not None:
        cells &= ~column.original_nulls
    return (covering(column, hidden), int(cells.sum())) if cells.any() else (column, 0)


def covering(column: ColumnPair, hidden: NDArray[np.bool_]) -> ColumnPair:
    """The column with labels that cover every value in place of NULL."""
    if isinstance(column, Nodes):
        nodes = np.where(hidden, 0, column.released).astype(np.int32)
        return replace(column, released=nodes, suppressed=hidden)
    assert isinstance(column, (Numbers, Intervals))
    low, high = (column.released,) * 2 if isinstance(column, Numbers) else (column.low, column.high)
    return Intervals(
        name=column.name,
        suppressed=hidden,
        original=column.original,
        scale=column.scale,
        valid=column.valid,
        ordinal=column.ordinal,
        ranks=column.ranks,
        low=np.where(hidden, column.scale.least, low),
        high=np.where(hidden, column.scale.most, high),
    )


def columns_of(
    microdata: Microdata,
    measures: Measures,
    trees: Iterable[Hierarchy | None],
    columns: Iterable[ReleasedColumn],
) -> tuple[ColumnPair, ...]:
    """Pair each attribute's originals with its written values; one tree or None per attribute."""
    of_source: dict[str, list[ReleasedColumn]] = {}
    for column in columns:
        of_source.setdefault(column.source, []).append(column)
    return tuple(
        _column(microdata, measures, attribute, tree, of_source[attribute.name])
        for attribute, tree in zip(microdata.attributes, trees, strict=True)
    )


def _column(
    microdata: Microdata,
    measures: Measures,
    attribute: Attribute,
    tree: Hierarchy | None,
    released: list[ReleasedColumn],
) -> ColumnPair:
    valid, first = microdata.valid_column(attribute.name), released[0]
    missing = None if first.missing is None or not first.missing.any() else first.missing
    if tree is not None:
        leaves = leaf_codes(microdata, attribute, tree)
        labels = _labels(first, tree)
        released_nodes = nodes(labels, tree, attribute.name)
        return Nodes(
            name=attribute.name,
            original=leaves if valid is None else np.where(valid, leaves, -1).astype(np.int32),
            released=released_nodes
            if missing is None
            else np.where(missing, -1, released_nodes).astype(np.int32),
            tree=tree,
        )
    scale = measures.numbers[attribute.name]
    shared: dict[str, Any] = {
        "name": attribute.name,
        "original": microdata.numbers[:, microdata.numeric.index(attribute)],
        "scale": scale,
        "valid": valid,
        "released_valid": None if missing is None else ~missing,
        "ordinal": attribute.kind is Kind.ORDINAL,
        "ranks": measures.ranks.get(attribute.name),
    }
    parts = [part for column in released for part in column.parts]
    low, high = (_ends(part, attribute, scale) for part in (parts[0], parts[-1]))
    if len(parts) == 2 and not first.closed:
        high = high[0], np.maximum(low[0], high[1] - unit_of(attribute, scale))
    single = (low[0] == low[1]) | (False if missing is None else missing)
    if len(parts) == 1 and single.all():
        return Numbers(**shared, released=low[0])
    return Intervals(**shared, low=low[0], high=high[1])


def _values_or_missing(column: ReleasedColumn) -> Iterable[tuple[bool, Any]]:
    """Whether each released value is NULL, and the value."""
    missing = np.zeros(len(column.values), bool) if column.missing is None else column.missing
    return zip(missing.tolist(), column.values.tolist(), strict=True)


def _labels(column: ReleasedColumn, tree: Hierarchy) -> list[str]:
    """The released labels, or numbers as its leaves spell them; the root's where NULL."""
    if column.attribute.kind.is_numeric:
        column = replace(
            column, values=np.array(texts_in(tree, column.as_float(), column.attribute), object)
        )
    return [
        tree.labels[0] if is_missing else str(label)
        for is_missing, label in _values_or_missing(column)
    ]


def _ends(
    column: ReleasedColumn, attribute: Attribute, scale: Scale
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The smallest and the largest number that each released value may stand for."""
    if column.attribute.kind.is_numeric and column.values.dtype != object:
        numbers = column.as_float()
        return numbers, numbers
    texts = any(isinstance(value, str) for value in column.values.tolist())
    if not texts:
        numbers = column.as_float()
        return numbers, numbers
    # Values behind NULL are arbitrary texts, so write a label that is always valid.
    return intervals(
        ["*" if is_missing else str(label) for is_missing, label in _values_or_missing(column)],
        attribute,
        scale,
    )


def intervals(
    labels: Sequence[str], attribute: Attribute, scale: Scale
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The ends of ``[a, b)``, ``[a, b]`` or one value, float64 (m,) each; ``*`` is the whole range.

    The upper end of ``[a, b)`` is the largest value below b that the column may have. ARX writes
    ``[a, b[``.

    Parameters
    ----------
    labels : m texts; the numbers in them are spelled as leaves of a hierarchy.

    Raises
    ------
    InvalidParameter : a label is none of these.
    """
    ends_of_label: dict[str, tuple[float, float] | None] = {ANY: (scale.least, scale.most)}
    for label in set(labels) - {ANY}:
        ends_of_label[label] = _ends_of_label(label, attribute, unit_of(attribute, scale))
    wrong = sum(ends is None for ends in ends_of_label.values())
    if wrong:
        raise InvalidParameter(
            f'Column "{attribute.name}" holds {wrong} labels that are neither a value nor an'
            " interval.",
            hint="Name the hierarchy that the labels come from: `hierarchies`.",
        )
    label_ends = np.array([ends_of_label[label] for label in labels], np.float64).reshape(-1, 2)
    return label_ends[:, 0].copy(), label_ends[:, 1].copy()


def nodes(labels: Sequence[str], tree: Hierarchy, name: str) -> NDArray[np.int32]:
    """The node of each label, int32 (m,).

    Raises
    ------
    InvalidParameter : a label is none of the hierarchy's.
    """
    of_label = {ANY: 0} | {label: tree.node(label) for label in tree.labels}
    wrong = len(set(labels) - set(of_label))
    if wrong:
        raise InvalidParameter(
            f'Column "{name}" holds {wrong} labels that are not in its hierarchy.'
        )
    return np.array([of_label[label] for label in labels], np.int32)


def _ends_of_label(label: str, attribute: Attribute, unit: float) -> tuple[float, float] | None:
    if (value := _number(label, attribute)) is not None:
        return value, value
    if label[:1] != "[" or label[-1:] not in ("]", ")", "["):
        return None
    inner = label[1:-1]
    at = inner.find(", ")
    # Values of an order may hold the separator themselves.
    while at >= 0:
        low, high = _number(inner[:at], attribute), _number(inner[at + 2 :], attribute)
        if low is not None and high is not None:
            return low, high if label[-1] == "]" else max(low, high - unit)
        at = inner.find(", ", at + 1)
    return None


def _number(text: str, attribute: Attribute) -> float | None:
    """Parse a text as ``number_text`` writes it; None if it is not such a text."""
    try:
        if attribute.kind is Kind.ORDINAL:
            return float(attribute.order.index(text))
        if attribute.kind is Kind.DATE:
            return float(np.datetime64(text, "D").astype(np.int64))
        if attribute.kind is Kind.TIMESTAMP:
            plain = text.removesuffix(UTC) if attribute.has_time_zone else text
            return float(np.datetime64(plain.replace(" ", "T"), "us").astype(np.int64))
        number = float(text)
    except ValueError:
        return None
    return number if np.isfinite(number) else None
