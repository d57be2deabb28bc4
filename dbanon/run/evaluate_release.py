"""Evaluate a published release, from the ledger and from queries on its relation.

A release has neither keys nor the row order of its source. So only the run that made it could pair
each released row with its original. Here some measures are computed without such pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from dbanon.data.schema import Kind, Role
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.data.words import read_key_or_former_key
from dbanon.errors import InvalidParameter, OriginalChanged
from dbanon.job.risk import JobRisk
from dbanon.ledger import entries, recorded_report
from dbanon.ledger.recorded_report import RecordedRelease, require_classes
from dbanon.ledger.tables import LedgerEntry
from dbanon.measures.catalogue import LOSSES, RISKS
from dbanon.measures.figure import NOT_FOR_LABELS
from dbanon.measures.unpaired import unpaired_figures
from dbanon.release.report import Report
from dbanon.release.risk_figures import RiskFigures
from dbanon.run.evaluate_risk import compare_relations
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store
from dbanon.stores.sql_counts import (
    compute_column_moments,
    compute_entropy,
    count_classes_by_size,
    count_rows,
)

# The notes of figures: where a figure comes from, or why it has no value.
RECORDED, COUNTED = "recorded when it was released", "counted now, in rows"
WITHOUT_PAIRS = "from source and release alone, without pairs"
_NEEDS_PAIRS_NOTE = "needs the pairs of the run: release with evaluate"
_SYNTHETIC_NOTE = "synthetic rows belong to no person and have no classes"
_WITHHELD_NOTE = "rows were withheld: source and release hold different rows"
# The measures of numeric columns that need no pairs.
_NUMERIC_MEASURES = (
    "sse_loss",
    "moment_loss",
    "structure_loss",
    "covariance_loss",
    "correlation_loss",
)


@dataclass(frozen=True)
class ReleaseFigure:
    """A measured value of information loss or risk.

    Parameters
    ----------
    measure : the name of the measure in docs/evaluation.md.
    attribute : the column; None for the whole release.
    value : None if it cannot be computed; ``note`` says why.
    note : the origin of the figure.
    """

    measure: str
    attribute: str | None
    value: float | None
    note: str


@dataclass(frozen=True)
class ReleaseEvaluation:
    """Information loss and remaining risks of a release in a database.

    Parameters
    ----------
    release_id, relation : id and relation of the release.
    original : the source that the release was compared with; None if it was not compared.
    evaluation : ``Evaluation.to_dict()`` as recorded; None if the run did not evaluate.
    figures : recorded figures first, then those counted or computed now.
    risk : the disclosure risk of the original and of the release, for the controller of the data
        and not for publication; None unless requested.
    """

    release_id: str
    relation: str
    original: str | None
    evaluation: JsonMapping | None
    figures: tuple[ReleaseFigure, ...]
    risk: RiskFigures | None = None

    def to_dict(self) -> JsonObject:
        """Return the evaluation as plain values, for JSON."""
        values = asdict(replace(self, risk=None))
        del values["risk"]
        return values if self.risk is None else {**values, "risk": self.risk.to_dict()}


def evaluate_release(
    store: Store,
    release: RelationName,
    original: RelationName | None = None,
    *,
    changed_source: bool = False,
    risk: JobRisk | None = None,
    accepts_synthetic: bool = False,
) -> ReleaseEvaluation:
    """Evaluate a release: read recorded figures, count its classes, and compute losses in SQL.

    Parameters
    ----------
    original : the source of the release, in the same database; None to compute no losses.
    changed_source : True to compare even if the rows or columns of the source have changed.
    risk : what to measure of the disclosure risk before and after; None to measure nothing.
    accepts_synthetic : True to return no figures for synthetic rows, which have no classes, rather
        than to refuse them.

    Raises
    ------
    ReleaseNotFound : the ledger has no such release.
    OriginalChanged : the rows or columns of the original have changed since the release.
    InvalidParameter : the rows are synthetic; or the risk is requested without the original, or
        cannot be measured.
    """
    if risk is not None and original is None:
        raise InvalidParameter(
            "The disclosure risk before and after needs the original.",
            hint="Name the table that the release was made from: `original`.",
        )
    with store.session(write=False) as session:
        entry = entries.find_release(
            session,
            release,
            hint="dbanon releases lists them. To evaluate tables from elsewhere, read them"
            " as data frames, and call dbanon.evaluate in Python.",
        )
        if accepts_synthetic and risk is None and entry.epsilon is not None:
            return _describe_synthetic(entry, original)
        require_classes(entry)
        # Check the relation like a source: its owner may have replaced it by a view.
        released_relation = session.catalog.find_source(entry.name)
        record = recorded_report.read(session, entry)
        report = record.report
        figures = [
            *_list_recorded_figures(report.evaluation),
            *_compute_class_size_figures(
                count_classes_by_size(session, entry.name, entry.quasi_identifiers)
            ),
        ]
        source = None if original is None else session.catalog.find_source(original)
        if source is not None:
            if not changed_source:
                _require_original(session, source, record)
            # ``suppressed`` is the number of withheld rows.
            if report.suppressed:
                names = (*_NUMERIC_MEASURES, "entropy_change")
                figures += [
                    ReleaseFigure(name, attribute=None, value=None, note=_WITHHELD_NOTE)
                    for name in names
                ]
            else:
                figures += _compare_originals(
                    session, released_relation, source, entry.quasi_identifiers, report
                )
        risk_figures = None
        if risk is not None and source is not None:
            risk_figures = compare_relations(
                session,
                source,
                released_relation,
                risk,
                class_columns=entry.quasi_identifiers,
                design_weight=entry.design_weight.get("column"),
                person_column=entry.entity,
                entity_normalize=report.arguments.get("entity_normalize"),
            )
    return ReleaseEvaluation(
        entry.release_id,
        str(entry.name),
        None if source is None else str(source.name),
        report.evaluation,
        tuple(figures),
        risk_figures,
    )


def _describe_synthetic(entry: LedgerEntry, original: RelationName | None) -> ReleaseEvaluation:
    """Describe synthetic rows, which have no classes to count."""
    figure = ReleaseFigure("class_risk", attribute=None, value=None, note=_SYNTHETIC_NOTE)
    source = None if original is None else str(original)
    return ReleaseEvaluation(entry.release_id, str(entry.name), source, None, (figure,))


def _describe_figure(origin: str, value: float | None, note: str) -> str:
    """Combine the origin of a figure with its note.

    Returns only the note if there is no value, or if it begins with ``NOT_FOR_LABELS``: a measure
    of distances says nothing about labels of generalization, such as "20-29".
    """
    if note and (value is None or note.startswith(NOT_FOR_LABELS)):
        return note
    return f"{origin}; {note}" if note else origin


def _list_recorded_figures(evaluation: JsonMapping | None) -> Iterator[ReleaseFigure]:
    """Yield the figures that the run recorded, or a note if it recorded none."""
    if evaluation is None:
        yield ReleaseFigure("linkage_risk", attribute=None, value=None, note=_NEEDS_PAIRS_NOTE)
        return
    notes = evaluation["notes"]
    recorded_figures = {**evaluation["losses"], **evaluation["risks"]}
    # In the order of the catalog of measures, and without those that this version does not know.
    for name in (*LOSSES, *RISKS):
        if name in recorded_figures:
            yield ReleaseFigure(
                name,
                attribute=None,
                value=recorded_figures[name],
                note=_describe_figure(RECORDED, recorded_figures[name], notes.get(name, "")),
            )
    attacks = evaluation.get("attacks", {})
    # Earlier versions recorded the results of attacks under another key.
    for name, attack_figure in read_key_or_former_key(attacks, "results", {}).items():
        # The confidence interval of the risk.
        low, high = attack_figure["interval"] or (None, None)
        interval_text = "" if low is None else f"; 95 %: {low:.3f} to {high:.3f}"
        yield ReleaseFigure(
            name,
            attribute=None,
            value=attack_figure["risk"],
            note=f"{attack_figure['note'] or RECORDED}{interval_text}",
        )
    for column, column_figures in evaluation["columns"].items():
        for name, value in column_figures.items():
            yield ReleaseFigure(name, attribute=column, value=value, note=RECORDED)


def _compute_class_size_figures(sizes: Mapping[int, int]) -> Iterator[ReleaseFigure]:
    """Yield risks computed from class sizes.

    ``sizes`` maps a number of rows per class to the number of such classes.
    """
    rows = sum(size * count for size, count in sizes.items())
    classes = sum(sizes.values())
    sum_of_squares = sum(size * size * count for size, count in sizes.items())
    for name, value in (
        ("class_risk", 1 / min(sizes) if sizes else None),
        ("average_class_risk", classes / rows if rows else None),
        ("average_class_size", rows / classes if rows else None),
        ("discernibility", float(sum_of_squares) if rows else None),
    ):
        note = "no row is released" if value is None else COUNTED
        yield ReleaseFigure(name, attribute=None, value=value, note=note)


def _require_original(session: Session, source: Relation, record: RecordedRelease) -> None:
    """Check that a relation still has the released columns and the recorded number of rows."""
    names = {attribute.name for attribute in source.schema.attributes}
    # A released quasi-identifier may have another name than its original: bounds of a range do.
    missing_names = [
        column.name
        for column in record.columns
        if column.role != Role.QUASI_IDENTIFIER.value and column.name not in names
    ]
    if missing_names:
        raise OriginalChanged(
            f"{source.name} is not the table that was released: it has no column "
            + ", ".join(f'"{name}"' for name in missing_names)
            + ".",
            hint="Name the relation that the release was made from, as it was then.",
        )
    rows, recorded_rows = count_rows(session, source.relation_to_read), record.report.rows_in
    if rows != recorded_rows:
        raise OriginalChanged(
            f"{source.name} is not the table that was released: it has {rows} rows, and had"
            f" {recorded_rows} then.",
            hint="To compare it all the same: `changed_source`.",
        )


def _compare_originals(
    session: Session,
    released_relation: Relation,
    source: Relation,
    quasi_identifiers: Sequence[str],
    report: Report,
) -> Iterator[ReleaseFigure]:
    """Yield figures that compare the columns of source and release.

    Strata are skipped, because their values are released unchanged. Text columns with an order are
    skipped, because the entropy ignores the order.
    """
    # Options of the run. Of the orders, the ledger has only the columns and the numbers of values.
    arguments = report.arguments
    source_kinds = {attribute.name: attribute.kind for attribute in source.schema.attributes}
    released_kinds = {
        attribute.name: attribute.kind for attribute in released_relation.schema.attributes
    }
    numeric_columns, text_columns = [], []
    for name in quasi_identifiers:
        kinds = {source_kinds.get(name), released_kinds.get(name)}
        if name in arguments.get("by", []):
            continue
        if kinds <= {Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT}:
            numeric_columns.append(name)
        elif kinds == {Kind.CATEGORY} and name not in arguments.get("orders", {}):
            text_columns.append(name)
    if numeric_columns:
        source_moments = compute_column_moments(session, source.relation_to_read, numeric_columns)
        released_moments = compute_column_moments(
            session, released_relation.relation_to_read, numeric_columns
        )
        note = f"{WITHOUT_PAIRS}; of {', '.join(numeric_columns)}"
        for measure, figure in unpaired_figures(
            source_moments, released_moments, numeric_columns
        ).items():
            yield ReleaseFigure(
                measure,
                attribute=None,
                value=figure.value,
                note=_describe_figure(note, figure.value, figure.note),
            )
            for name, value in figure.columns.items():
                yield ReleaseFigure(measure, attribute=name, value=value, note=WITHOUT_PAIRS)
    else:
        for measure in _NUMERIC_MEASURES:
            yield ReleaseFigure(
                measure,
                attribute=None,
                value=None,
                note="no column holds numbers both in the source and in the release",
            )
    source_entropies = [
        compute_entropy(session, source.relation_to_read, name) for name in text_columns
    ]
    released_entropies = [
        compute_entropy(session, released_relation.relation_to_read, name) for name in text_columns
    ]
    yield ReleaseFigure(
        "entropy_change",
        attribute=None,
        value=_percent_change(sum(source_entropies), sum(released_entropies))
        if text_columns
        else None,
        note=f"percent; {WITHOUT_PAIRS}"
        if text_columns
        else "no text column without an order is both in the source and in the release",
    )
    for name, before, after in zip(text_columns, source_entropies, released_entropies, strict=True):
        yield ReleaseFigure(
            "entropy_change",
            attribute=name,
            value=_percent_change(before, after),
            note=f"percent; {WITHOUT_PAIRS}",
        )


def _percent_change(before: float, after: float) -> float:
    """Return the absolute change in percent; 0 if ``before`` is 0."""
    return 100 * abs(before - after) / before if before else 0.0
