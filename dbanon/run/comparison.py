"""Comparison of a published relation with its record in the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose

from dbanon.data.counts import CountRequests, Counts, Recount
from dbanon.data.types import JsonMapping
from dbanon.errors import DbanonError, RecountFailed, ReleaseChanged
from dbanon.hierarchy.spec import HierarchySource, parse
from dbanon.job.chain_guarantee import FIRST_RELEASE_SUFFIX
from dbanon.job.guarantee import PERSONS
from dbanon.job.weight import CLASS_FORMS, ROUNDED
from dbanon.ledger.recorded_report import recorded_digest, released_columns
from dbanon.ledger.tables import LedgerEntry
from dbanon.measures import HIERARCHICAL, Model
from dbanon.measures.recount import add_null_leaves, require_levels, trees_of_models
from dbanon.run.weights import find_weight_problem
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session
from dbanon.stores import digest
from dbanon.stores.hierarchies import resolve
from dbanon.stores.sql_counts import (
    count_class_values,
    count_homogeneous_classes,
    count_values,
)

# The kinds of differences, as named in messages.
COLUMNS, TYPES, ROWS = "columns", "types", "rows (digest)"
CLASS_SIZES, MODELS = "class sizes", "levels of privacy models"

RELEASE_AGAIN_HINT = "Drop it (dbanon drop), and release the table again."


@dataclass(frozen=True)
class ModelCount:
    """A privacy model of a release, recounted.

    Parameters
    ----------
    model : a description of the model.
    recorded : the level counted when it was released.
    counted : the level counted now; None if it could not be counted.
    why_not : the reason why it could not be counted.
    """

    model: str
    recorded: float
    counted: float | None
    why_not: str | None = None


class Comparison:
    """Collects the differences between a relation and its entry in the ledger.

    Parameters
    ----------
    entry : the ledger's entry for the relation; if None, nothing is compared.

    Attributes
    ----------
    digest : the result of comparing the digest of the rows: a constant of ``stores.digest``, such
        as ``UNCHANGED``. None before the comparison, or without an entry.
    """

    def __init__(self, session: Session, relation: RelationName, entry: LedgerEntry | None) -> None:
        self._session, self._relation, self._entry = session, relation, entry
        self._differences: list[str] = []
        self._detail: str | None = None
        self._recorded_digest: str | None = None
        self.digest: str | None = None
        self._current_names: list[str] = []
        if entry is not None:
            self._recorded_digest = recorded_digest(session, entry.release_id)
            self._compare_columns(released_columns(session, entry.release_id))

    def _compare_columns(self, recorded_columns: Sequence[tuple[str, str]]) -> None:
        """Compare names, order and types; ``recorded_columns`` are pairs of name and SQL type."""
        current_columns = self._session.catalog.list_columns(self._relation)
        self._current_names = [name for name, _ in current_columns]
        released_names = [name for name, _ in recorded_columns]
        # Releases of version 0.1.0 recorded no digest, and neither the order nor the types of the
        # columns. Their columns can only be compared by name.
        normalize_order = list if self._recorded_digest is not None else sorted
        if normalize_order(self._current_names) != normalize_order(released_names):
            self._differences.append(COLUMNS)
            new_names = [name for name in self._current_names if name not in released_names]
            missing_names = [name for name in released_names if name not in self._current_names]
            self._detail = (
                f"Columns now {len(current_columns)}, released {len(released_names)}."
                + "".join(
                    f" {word}: {', '.join(quoted_names)}."
                    for word, quoted_names in (
                        ("New", _quote_names(new_names)),
                        ("Missing", _quote_names(missing_names)),
                    )
                    if quoted_names
                )
            )
        elif self._recorded_digest is not None and current_columns != list(recorded_columns):
            self._differences.append(TYPES)
            retyped_names = [
                name
                for (name, current_type), (_, released_type) in zip(
                    current_columns, recorded_columns, strict=True
                )
                if current_type != released_type
            ]
            self._detail = f"Type changed: {', '.join(_quote_names(retyped_names))}."

    @property
    def columns_differ(self) -> bool:
        """True if names, order or types differ, so that neither models nor rows can be compared."""
        return bool({COLUMNS, TYPES} & set(self._differences))

    @property
    def unchanged(self) -> bool | None:
        """True if the rows are as released; None if they could not be compared.

        Never False: ``compare_rows`` raises an error if the rows differ.
        """
        return True if self.digest == digest.UNCHANGED else None

    def require_columns(self, names: Sequence[str]) -> None:
        """Check that these columns exist, so that classes can be counted.

        Raises
        ------
        ReleaseChanged : a column is missing.
        """
        if self._entry is not None and not set(names) <= set(self._current_names):
            raise self._build_error()

    def compare_class_sizes(self, recount: Recount) -> None:
        """Compare the histogram of class sizes."""
        assert self._entry is not None
        histogram = {str(size): count for size, count in sorted(recount.histogram.items())}
        if histogram != self._entry.histogram:
            self._differences.append(CLASS_SIZES)

    def compare_models(self, models: Sequence[ModelCount]) -> None:
        """Compare the levels of models that could be counted."""
        if any(
            model.counted is not None and not isclose(model.counted, model.recorded, rel_tol=1e-9)
            for model in models
        ):
            self._differences.append(MODELS)

    def compare_rows(self) -> None:
        """Compare the digest of the rows, then raise if this or an earlier comparison failed.

        Raises
        ------
        ReleaseChanged : something differs.
        """
        if self._entry is None:
            return
        if not self.columns_differ:
            self.digest = digest.compare(self._session, self._relation, self._recorded_digest)
        if self.digest == digest.CHANGED:
            self._differences.append(ROWS)
        if self._differences:
            raise self._build_error()

    def _build_error(self) -> ReleaseChanged:
        """Build the error that names all differences."""
        return ReleaseChanged(
            f"{self._relation} has changed since it was released: {', '.join(self._differences)}"
            " differ.",
            detail=self._detail,
            hint="Find out who changed it, and release it again.",
        )


def _quote_names(names: Sequence[str]) -> list[str]:
    """Put column names in double quotes, for messages."""
    return [f'"{name}"' for name in names]


def recount_models(
    session: Session,
    relation: RelationName,
    names: Sequence[str],
    recorded_models: Sequence[JsonMapping],
    hierarchies: Mapping[str, JsonMapping],
    recount: Recount,
) -> tuple[ModelCount, ...]:
    """Recount the privacy models of a release, where enough was recorded to do so.

    Parameters
    ----------
    names : the quasi-identifiers and strata of the release.
    recorded_models, hierarchies : models and descriptions of hierarchies (by column), as stored in
        the ledger's entry or in the metadata of the exported file.
    recount : the class sizes of the relation, counted now.

    Raises
    ------
    RecountFailed : a class violates a model.
    """
    model_counts: list[ModelCount] = []
    models: dict[int, Model] = {}
    for index, recorded_model in enumerate(recorded_models):
        model = _restore_model(session, recorded_model, hierarchies)
        why_not = None
        if isinstance(model, Model):
            models[index] = model
        else:
            why_not = model
        model_counts.append(
            ModelCount(
                model=recorded_model["model"],
                recorded=float(recorded_model["counted"]),
                counted=None,
                why_not=why_not,
            )
        )
    if not models:
        return tuple(model_counts)
    # As in the run, NULL counts as a value, so each hierarchy needs a leaf for it.
    countable_models = add_null_leaves(list(models.values()))
    source = session.catalog.find_source(relation)
    sensitive_names = tuple(dict.fromkeys(model.attribute for model in countable_models))
    model_attributes = session.complete_attributes_from_values(
        source, [source.attribute(name) for name in sensitive_names]
    )
    source = source.with_attributes(model_attributes)
    attributes = {attribute.name: attribute for attribute in model_attributes}
    count_requests = CountRequests(
        tuple(names),
        sensitive=sensitive_names,
        # The trees are by column, so these are the names of columns.
        hierarchy_columns=frozenset(trees_of_models(countable_models)),
    )
    try:
        value_counts = count_class_values(session, source, relation, count_requests)
        levels = require_levels(
            countable_models, attributes, Counts(recount, value_counts=value_counts)
        )
    except RecountFailed as error:
        error.hint = RELEASE_AGAIN_HINT
        raise
    for index, level in zip(models, levels, strict=True):
        model_counts[index] = replace(model_counts[index], counted=level.achieved)
    return tuple(model_counts)


def verify_class_weights(
    session: Session, relation: RelationName, names: Sequence[str], record: JsonMapping, k: int
) -> None:
    """Recount the weights of classes in a release in a database or a file.

    Parameters
    ----------
    names : the quasi-identifiers and strata of the release.
    record : the record of the design weight; empty for a release without one.
    k : the number of rows that must share a weight.

    Raises
    ------
    RecountFailed : the weights are not as recorded.
    ColumnNotFound : there is no such column.
    """
    if record.get("as") not in CLASS_FORMS:
        return
    name = str(record["column"])
    # Raises ColumnNotFound.
    session.catalog.find_source(relation).attribute(name)
    homogeneity = count_homogeneous_classes(session, relation, names, name)
    problem = find_weight_problem(
        count_values(session, relation, name),
        homogeneity,
        k=k,
        rows=homogeneity.of_rows,
        expected_sum=float(record["sum"]),
        are_whole=record["as"] == ROUNDED,
    )
    if problem is not None:
        raise RecountFailed(
            f'The weights in column "{name}" of {relation} are not those of its release:'
            f" {problem}.",
            hint=RELEASE_AGAIN_HINT,
        )


def _restore_model(
    session: Session, recorded_model: JsonMapping, hierarchies: Mapping[str, JsonMapping]
) -> Model | str:
    """Restore a model from its record, or return the reason why that is impossible."""
    if "kind" not in recorded_model:
        return "recorded by an earlier version, in words only"
    if str(recorded_model["model"]).endswith(FIRST_RELEASE_SUFFIX):
        return "it refers to the first release of its chain, which only the chain's state has"
    # Models that count rows have no such key.
    if recorded_model.get("counted_in") == PERSONS:
        return (
            "it was counted in persons, and the release does not show which rows belong to one"
            " person"
        )
    distance: HierarchySource = recorded_model.get("distance", "equal")
    if distance == HIERARCHICAL:
        # Where the hierarchy came from: its specification under ``from``, and a hash if it was read
        # from the database.
        origin = hierarchies.get(recorded_model["attribute"], {})
        if "sha256" not in origin:
            return "its hierarchy is not stored with it"
        try:
            # Others may have written the entry, so never read a file that it names.
            distance = resolve(session, parse(origin["from"], files=False))
        except DbanonError:
            return "its hierarchy is no longer in this database, or this role may not read it"
        if distance.sha256 != origin["sha256"]:
            return "its hierarchy has changed since"
    kind, attribute = recorded_model["kind"], recorded_model["attribute"]
    return Model(
        kind,
        attribute,
        level=recorded_model["level"],
        l=recorded_model.get("l", 2),
        distance=distance,
    )
