"""Verify a release: recount the published relation and compare it with the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Required, TypedDict, Unpack

from dbanon.data.counts import CountRequests, Counts, Recount
from dbanon.data.extension import load_runner
from dbanon.data.schema import require_lists
from dbanon.data.types import JsonObject
from dbanon.errors import (
    DbanonError,
    InsufficientRights,
    InvalidParameter,
    RecountFailed,
    sql_for_hint,
)
from dbanon.job.guarantee import Guarantee
from dbanon.ledger import entries
from dbanon.ledger.recorded_report import require_classes
from dbanon.ledger.release_tables import RELEASE_ID_PATTERN, ReleaseRelation, find_release_relation
from dbanon.run.comparison import (
    RELEASE_AGAIN_HINT,
    Comparison,
    ModelCount,
    recount_models,
    verify_class_weights,
)
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.recount_statements import reader_agreement_query, reader_recount_query
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store
from dbanon.stores.sql_counts import count_classes, count_sets

_NOT_RELEASED_HINT = (
    "The ledger has no release of this name, so these are the rows of the table itself. Release"
    " the table with this `k`, and verify the release."
)

_PRIVATE_COUNTS_TEXT = "rows, NULLs, bounds and lists. Differential privacy cannot be counted"


@dataclass(frozen=True)
class PrivateVerification:
    """The result of recounting a differentially private release.

    Parameters
    ----------
    rows : number of rows, all of them without NULL and within the bounds and lists.
    release_id, guarantee, epsilon : from the ledger's entry.
    unchanged : True if columns, types and rows are as released; None if the rows could not be
        compared.
    digest : the result of comparing the digest of the rows, a constant of ``stores.digest``.
    output : the release's output.
    superseded_at : when another release took its name; None for the current release.
    counted : describes the counts, and names what cannot be counted.
    """

    relation: str
    columns: tuple[str, ...]
    rows: int
    release_id: str
    epsilon: float
    guarantee: str
    unchanged: bool | None
    digest: str | None
    counted: str = _PRIVATE_COUNTS_TEXT
    output: str | None = None
    superseded_at: str | None = None

    @property
    def recounted(self) -> str:
        """A one-line description of the counts."""
        return f"{self.rows} rows ({self.counted})"

    @property
    def k_achieved(self) -> None:
        """None: such a release has no classes."""

    @property
    def recount_sql(self) -> None:
        """None: such a release has no classes."""

    def to_dict(self) -> JsonObject:
        """Return the verification as plain values, for JSON."""
        return asdict(self)

    def pairs(self) -> list[tuple[str, str]]:
        """Return pairs of label and text, for display."""
        comparison_text = "yes: columns, types, rows, bounds"
        if not self.unchanged:
            comparison_text = f"columns and bounds, yes; rows not compared: digest {self.digest}"
        return [
            ("relation", self.relation),
            ("release", describe_release(self)),
            ("columns", ", ".join(self.columns)),
            ("rows", str(self.rows)),
            ("counted", self.counted),
            ("guarantee", self.guarantee),
            ("as released", comparison_text),
        ]


@dataclass(frozen=True)
class SetCount:
    """A set of columns with its own k, recounted.

    Parameters
    ----------
    k : the k requested for the set.
    counted : the number of rows that share its rarest combination of values.
    """

    columns: tuple[str, ...]
    k: int
    counted: int


class VerificationFields(TypedDict, total=False):
    """The fields of ``Verification`` that do not follow from the recount."""

    release_id: Required[str | None]
    unchanged: Required[bool | None]
    guarantee: Required[str | None]
    entity: str | None
    models: tuple[ModelCount, ...]
    digest: str | None
    also_k: tuple[SetCount, ...]
    output: str | None
    superseded_at: str | None


@dataclass(frozen=True)
class Verification:
    """The result of recounting a published relation.

    ``k_requested`` is the requested k, ``k_achieved`` the current size of the smallest class, in
    rows, or the smallest number of rows that agree where NULL agrees with every value. ``entity``
    is the column whose distinct values k counted when the release was made; it was not released, so
    only rows can be counted now. ``k_rows`` is set for a release that grouped each attribute
    separately: the number of rows that share the rarest combination of values, which the guarantee
    does not cover. ``release_id``, ``unchanged`` and ``digest`` are None for a relation that is not
    in the ledger. ``unchanged`` is True if names, order and types of columns, the digest of the
    rows, class sizes and levels of models are as recorded, and None if the rows could not be
    compared. ``digest`` is the result of comparing the rows: "unchanged", "not recorded" (releases
    of version 0.1.0, which are compared by column names, class sizes and models) or "recorded by
    another version of the database". ``models`` are those of the ledger's entry. ``counted``
    describes the counts. ``also_k`` are the sets of columns of the release. ``output`` is the
    release's output, ``superseded_at`` the time at which another release took its name, None for
    the current release.
    """

    relation: str
    quasi_identifiers: tuple[str, ...]
    rows: int
    classes: int
    smallest_class: int
    median_class: float
    largest_class: int
    null_rows: int
    k_requested: int
    k_achieved: int
    release_id: str | None
    unchanged: bool | None
    guarantee: str | None
    recount_sql: str
    entity: str | None = None
    k_rows: int | None = None
    models: tuple[ModelCount, ...] = ()
    digest: str | None = None
    counted: str = "rows"
    also_k: tuple[SetCount, ...] = ()
    output: str | None = None
    superseded_at: str | None = None

    @classmethod
    def from_recount(
        cls,
        display_name: str,
        reader_queries: Sequence[str],
        names: Sequence[str],
        k: int,
        guarantee: Guarantee,
        recount: Recount,
        /,
        **fields: Unpack[VerificationFields],
    ) -> Verification:
        """Build the result from a recount.

        Parameters
        ----------
        display_name : the name of the relation or file for display.
        reader_queries : the result of ``build_reader_queries``.
        names : the quasi-identifiers and strata.
        k : the requested k.
        guarantee : the guarantee of the release.
        recount : the counts of the relation.
        fields : the other fields of this class.
        """
        return cls(
            relation=display_name,
            quasi_identifiers=tuple(names),
            rows=recount.rows,
            classes=recount.classes,
            smallest_class=recount.smallest,
            median_class=recount.median,
            largest_class=recount.largest,
            null_rows=recount.null_rows,
            k_requested=k,
            k_achieved=guarantee.counted_k(recount),
            k_rows=recount.k_rows,
            recount_sql="\n".join(reader_queries),
            counted=guarantee.summarize_recount(recount),
            **fields,
        )

    @property
    def recounted(self) -> str:
        """A one-line description of the counts."""
        return f"smallest class {self.smallest_class} ({self.counted})"

    def to_dict(self) -> JsonObject:
        """Return the verification as plain values, for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "counted"}


def build_reader_queries(
    session: Session,
    relation: RelationName,
    requests: CountRequests,
    reader_name: RelationName | None = None,
) -> list[str]:
    """Build the queries with which readers count the classes again.

    There is one per set of columns. Like the recount, they compare what readers see. They run with
    the database's default settings.

    Parameters
    ----------
    reader_name : the name by which readers know the relation, if it differs.
    """
    mark = session.dialect.quotation_mark
    keys = session.catalog.columns_as_displayed(relation, requests.columns, mark)
    key_of_column = dict(zip(requests.columns, keys, strict=True))
    relation_sql = (reader_name or relation).quote(mark)
    if requests.null_agrees:
        return [reader_agreement_query(relation_sql, keys)]
    return [
        reader_recount_query(relation_sql, [key_of_column[name] for name in columns])
        for columns in requests.classes
    ]


def describe_release(verification: Verification | PrivateVerification) -> str:
    """Describe which release was recounted, for display."""
    if verification.release_id is None:
        return "not in the ledger"
    if verification.superseded_at is None:
        return verification.release_id
    return (
        f"{verification.release_id} of {verification.output}, superseded at"
        f" {verification.superseded_at}"
    )


def verify(
    store: Store,
    relation: RelationName | str,
    quasi_identifiers: Sequence[str] = (),
    k: int | None = None,
) -> Verification | PrivateVerification:
    """Recount a published relation by GROUP BY, and check it against its ledger entry.

    Without a ledger entry, check it against the arguments.

    Parameters
    ----------
    relation : the name of an output, the id of a release, or the name of a released table behind a
        view, which a later release may have superseded.
    quasi_identifiers, k : required for relations without an entry in the ledger. With an entry,
        ``k`` may be larger than the one of the release.

    Raises
    ------
    RecountFailed : a class holds fewer than k rows, or violates a privacy model.
    ReleaseChanged : the relation has changed since its release; the message says how.
    InsufficientRights : the role may not read the relation, or the ledger.
    ReleaseNotFound : there is no ledger entry, and no quasi-identifiers and k were passed.
    TableNotFound : the relation of the release no longer exists.
    """
    require_lists(quasi_identifiers=quasi_identifiers)
    if k is not None and k < 2:
        raise InvalidParameter("k must be a whole number, 2 or more.")
    with store.session(write=False) as session:
        if quasi_identifiers:
            if k is None:
                raise InvalidParameter("k is needed with quasi-identifiers.", hint="Add `k`.")
            source = session.catalog.find_source(_require_name(relation))
            for name in quasi_identifiers:
                # Raises ColumnNotFound if there is no such column.
                source.attribute(name)
            release, relation, names = None, source.name, tuple(quasi_identifiers)
        else:
            release = find_release_relation(session, relation)
            entry, relation = release.entry, release.relation
            if entry.epsilon is not None:
                # Raises InvalidParameter: synthetic rows have no classes, so they have no k.
                if k is not None:
                    require_classes(entry)
                return _verify_private(session, release)
            # Check the relation like a source: its owner may have replaced it by a view.
            session.catalog.find_source(relation)
            names = entry.quasi_identifiers
            k = entry.k_requested if k is None else k
        return _verify_classes(session, relation, names, k, release)


def _verify_classes(
    session: Session,
    relation: RelationName,
    names: Sequence[str],
    k: int,
    release: ReleaseRelation | None,
) -> Verification:
    """Recount the classes of a relation, and compare it with its entry in the ledger, if any.

    Raises the errors of ``verify``.

    Parameters
    ----------
    names : the quasi-identifiers, and for a release in the ledger the strata.
    k : the smallest number of rows that a class may have.
    release : the release with its entry in the ledger; None without an entry.
    """
    entry = release.entry if release else None
    # Without an entry, it compares nothing.
    comparison = Comparison(session, relation, entry)
    comparison.require_columns(names)
    # Without an entry, require k rows in each class.
    guarantee = Guarantee(k) if entry is None else entry.guarantee
    with _explain_missing_right(session, relation):
        recount = count_classes(session, relation, guarantee.count_requests(names))
    # In a chain of several tables, k counts persons, and a class may have fewer rows.
    if guarantee.classes_have_k_rows:
        hint = RELEASE_AGAIN_HINT if entry else partial(_hint_without_entry, session, relation)
        require_k(guarantee, recount, k, str(relation), hint)
    models: tuple[ModelCount, ...] = ()
    column_set_counts: tuple[SetCount, ...] = ()
    if entry is not None:
        comparison.compare_class_sizes(recount)
        if not comparison.columns_differ:
            column_set_counts = recount_column_sets(session, relation, names, guarantee, recount)
            models = recount_models(
                session, relation, names, entry.models, entry.hierarchies, recount
            )
            comparison.compare_models(models)
            verify_class_weights(session, relation, names, entry.design_weight, k)
    comparison.compare_rows()
    return Verification.from_recount(
        str(relation),
        build_reader_queries(session, relation, guarantee.count_requests(names)),
        names,
        k,
        guarantee,
        recount,
        release_id=entry.release_id if entry else None,
        unchanged=comparison.unchanged,
        guarantee=entry.sentence if entry else None,
        entity=entry.entity if entry else None,
        models=models,
        digest=comparison.digest,
        also_k=column_set_counts,
        output=str(entry.name) if entry else None,
        superseded_at=release.superseded_at if release else None,
    )


def _require_name(relation: RelationName | str) -> RelationName:
    """Convert to the name of a relation; raise InvalidParameter for the id of a release."""
    if isinstance(relation, RelationName):
        return relation
    if RELEASE_ID_PATTERN.fullmatch(relation):
        raise InvalidParameter(
            "A release named by its id is always counted by its own quasi-identifiers.",
            hint="Leave out `quasi_identifiers`, or name the table instead of the id.",
        )
    return parse_relation(relation)


def recount_column_sets(
    session: Session,
    relation: RelationName,
    names: Sequence[str],
    guarantee: Guarantee,
    recount: Recount,
) -> tuple[SetCount, ...]:
    """Recount the sets of columns of a release, in rows.

    Raises
    ------
    RecountFailed : fewer rows than a set's k share a combination of its values.
    """
    counts = Counts(
        recount, further_sets=count_sets(session, relation, guarantee.count_requests(names))
    )
    # For each set, the number of rows that share its rarest combination.
    smallest_counts = guarantee.require_sets(counts, RELEASE_AGAIN_HINT)
    return tuple(
        SetCount(column_set.columns, int(column_set.k or guarantee.k), smallest_count)
        for column_set, smallest_count in zip(guarantee.column_sets, smallest_counts, strict=True)
    )


@contextmanager
def _explain_missing_right(session: Session, relation: RelationName) -> Iterator[None]:
    """Rewrite an error about missing rights in the block to name the right to grant."""
    try:
        yield
    except InsufficientRights as error:
        # Subclasses of this error have more precise hints, so leave them unchanged.
        if type(error) is not InsufficientRights:
            raise
        name = sql_for_hint(relation.quote(session.dialect.quotation_mark))
        raise InsufficientRights(
            f"This role may not read {relation}.",
            detail=error.detail,
            hint=f"Its owner runs: GRANT SELECT ON {name} TO …;",
        ) from None


def _hint_without_entry(session: Session, relation: RelationName) -> str:
    """Build the hint for callers who named columns and k, although a ledger entry may exist."""
    try:
        entry = entries.find_release(session, relation)
    except DbanonError:
        return _NOT_RELEASED_HINT
    columns = ", ".join(f'"{name}"' for name in entry.quasi_identifiers)
    return (
        f"Release {entry.release_id} has this name. What it guarantees holds for its own"
        f" quasi-identifiers, {columns}: leave out `quasi_identifiers` and `k` to verify that."
    )


def require_k(
    guarantee: Guarantee,
    recount: Recount,
    k: int,
    display_name: str,
    hint: str | Callable[[], str],
) -> None:
    """Check that the rows of a relation or file keep the guarantee with this k.

    Raises
    ------
    RecountFailed : the smallest class holds fewer rows.
    """
    counted = guarantee.counted_k(recount)
    if counted < k:
        raise RecountFailed(
            f"{guarantee.describe_k(f'of {display_name}', counted)}, fewer than k = {k}.",
            hint=hint if isinstance(hint, str) else hint(),
        )


def _verify_private(session: Session, release: ReleaseRelation) -> PrivateVerification:
    """Recount a differentially private release, and check its values against their domains."""
    entry, relation_name = release.entry, release.relation
    assert entry.epsilon is not None
    # Check the relation like a source: its owner may have replaced it by a view.
    relation = session.catalog.find_source(relation_name)
    comparison = Comparison(session, relation_name, entry)
    comparison.require_columns(entry.quasi_identifiers)
    if not comparison.columns_differ:
        rows, n_invalid = load_runner("private").recount(session, relation, entry)
        if rows != entry.rows or n_invalid:
            raise RecountFailed(
                f"{relation_name} has {rows} rows and was released with {entry.rows}; {n_invalid}"
                " of them have a NULL, or a value outside of its bounds or list.",
                hint="Drop it (dbanon drop), and release the table again. That spends again.",
            )
    # Raises ReleaseChanged if this comparison or that of the columns found a difference.
    comparison.compare_rows()
    return PrivateVerification(
        relation=str(relation_name),
        columns=entry.quasi_identifiers,
        rows=entry.rows,
        release_id=entry.release_id,
        epsilon=entry.epsilon,
        guarantee=entry.sentence,
        unchanged=comparison.unchanged,
        digest=comparison.digest,
        output=str(entry.name),
        superseded_at=release.superseded_at,
    )
