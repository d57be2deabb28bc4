"""Report: what is said about what is published."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from operator import attrgetter
from typing import Any, ClassVar, Generic, TypeVar, overload

from dbanon.data.counts import Recount
from dbanon.data.frozen import dataclass
from dbanon.data.words import WithCard
from dbanon.job.verdict import Caution, Verdict
from dbanon.measures.models import CountedModel
from dbanon.release.alignment import Alignment
from dbanon.release.attribute_disclosure import FewPersons, KeptIdentifier, TellingColumn
from dbanon.release.homogeneity import ClassHomogeneity, homogeneity_pairs, unprotected
from dbanon.release.joint import JOINT
from dbanon.release.joint_rows import JOINT_ROWS, PERSON_ROWS
from dbanon.release.linkage import LinkingColumn
from dbanon.release.outcome import Evaluated as Evaluated
from dbanon.release.outcome import Internal
from dbanon.release.outcome import Lost as Lost
from dbanon.release.recode import ColumnLoss
from dbanon.release.words import (
    averaged_codes_told,
    cautions_of,
    export_pairs,
    files_note,
    first_cautions,
    first_pairs,
    in_new_schema,
    loss_pair,
    nearness,
    passthrough_note,
    plain,
    told_of,
)

T = TypeVar("T")
NOT_CHECKED = "not checked against earlier releases"
EARLIER = "{}; the ledger has {} of the same source"
SEED_POLICY = (
    "classes: reproducible; row order: fresh from the operating system's random source, not stored"
)


@dataclass(frozen=True)
class Request:
    """What was asked for, and what it was asked of.

    Parameters
    ----------
    source, output, output_kind : the relation that was read, and what readers use of the release.
    arguments : the policy as plain values, with what was found of it; as the ledger has it.
    quasi_identifiers, sensitive, kept, not_copied : columns by what became of them.
    entity : the column whose values k counts; None for rows.
    guarantee : in words.
    """

    source: str
    output: str
    output_kind: str
    method: str
    arguments: Mapping[str, Any]
    quasi_identifiers: tuple[str, ...]
    sensitive: tuple[str, ...]
    kept: tuple[str, ...]
    not_copied: tuple[str, ...]
    k: int
    entity: str | None
    guarantee: str


@dataclass(frozen=True)
class Counted:
    """What was counted on what was written, before anyone could see it.

    Parameters
    ----------
    rows_in, suppressed : records of the source, and those that were withheld.
    rows : of the classes.
    verdict : of the guarantee.
    telling, identifiers, linking : findings on columns that are released as they are.
    few_persons : findings on columns that look like numbers of persons; looked for without entity.
    homogeneity : of each sensitive column, the classes in which all rows share one value of it.
    """

    rows_in: int
    suppressed: int
    rows: Recount
    verdict: Verdict
    telling: tuple[TellingColumn, ...] = ()
    few_persons: tuple[FewPersons, ...] = ()
    identifiers: tuple[KeptIdentifier, ...] = ()
    linking: tuple[LinkingColumn, ...] = ()
    homogeneity: tuple[ClassHomogeneity, ...] = ()


@dataclass(frozen=True)
class MadeBy:
    """Which release it is, and how and when it was made.

    Parameters
    ----------
    relation, seconds : the table that holds it; by phase, and ``total``.
    digest : of the written rows, as the ledger has it; None for data frames.
    """

    release_id: str
    created_at: str
    dbanon_version: str
    relation: str
    seconds: Mapping[str, float] = field(default_factory=dict)
    digest: str | None = None
    seed_policy: str = SEED_POLICY
    earlier_releases: str = NOT_CHECKED
    verified: bool = True


class _Told(Generic[T]):
    """A name of a report, and where in its groups it is told."""

    def __init__(self, place: str) -> None:
        self._find: Callable[[Report], T] = attrgetter(place)

    @overload
    def __get__(self, report: None, owner: type[Report]) -> _Told[T]: ...

    @overload
    def __get__(self, report: Report, owner: type[Report]) -> T: ...

    def __get__(self, report: Report | None, owner: type[Report]) -> T | _Told[T]:
        return self if report is None else self._find(report)


@dataclass(frozen=True, repr=False)
class Report(WithCard):
    """What a release is, what it lost and how it was made.

    Holds no value that was read. What the call itself wrote out for a builder of a hierarchy, such
    as ``{"ordered": ["low", "high"]}``, is in ``arguments`` as it was given.

    Everything in its four groups has a name here, too: ``report.k_achieved`` is
    ``report.counts.verdict.k``. ``to_dict`` tells these names, in this order.

    Losses are SSE/SST on z-scores over the released records, or iloss, as ``loss_measure`` says:
    see ``Lost``. They are those that readers may see; ``internal`` has the exact ones, of
    the run alone: no text, JSON, pickle or page of a report has them, and of a ledger one table.
    ``k_achieved`` and ``persons`` count persons where ``entity`` names their column;
    class sizes are rows. ``k_rows`` is not None where classes are those of each attribute by
    itself: the rows that share the rarest combination of values. ``levels`` are those of a full
    domain, by quasi-identifier. ``telling`` are findings on columns that are released as they are.
    ``lost`` are the quasi-identifiers that every row is released with one label of, ``*`` or the
    root of their hierarchy. ``evaluation`` is ``Evaluation.to_dict()`` where ``evaluate``
    was asked for, and ``evaluation_failed`` why there is none then.
    """

    request: Request
    counts: Counted
    loss: Lost
    made_by: MadeBy
    evaluated: Evaluated = field(default_factory=Evaluated)
    internal: Internal | None = field(default=None, repr=False, compare=False)
    # No field: neither ``replace`` nor what serializes fields hands it on.
    alignment: ClassVar[Alignment | None] = None

    release_id = _Told[str]("made_by.release_id")
    created_at = _Told[str]("made_by.created_at")
    dbanon_version = _Told[str]("made_by.dbanon_version")
    source = _Told[str]("request.source")
    output = _Told[str]("request.output")
    output_kind = _Told[str]("request.output_kind")
    relation = _Told[str]("made_by.relation")
    method = _Told[str]("request.method")
    arguments = _Told[Mapping[str, Any]]("request.arguments")
    quasi_identifiers = _Told[tuple[str, ...]]("request.quasi_identifiers")
    sensitive = _Told[tuple[str, ...]]("request.sensitive")
    kept = _Told[tuple[str, ...]]("request.kept")
    not_copied = _Told[tuple[str, ...]]("request.not_copied")
    rows_in = _Told[int]("counts.rows_in")
    rows_out = _Told[int]("counts.rows.rows")
    suppressed = _Told[int]("counts.suppressed")
    null_rows = _Told[int]("counts.rows.null_rows")
    classes = _Told[int]("counts.rows.classes")
    smallest_class = _Told[int]("counts.rows.smallest")
    median_class = _Told[float]("counts.rows.median")
    largest_class = _Told[int]("counts.rows.largest")
    k_requested = _Told[int]("request.k")
    k_achieved = _Told[int]("counts.verdict.k")
    homogeneity = _Told[tuple[ClassHomogeneity, ...]]("counts.homogeneity")
    information_loss = _Told[float]("loss.released")
    information_loss_before_rounding = _Told[float]("loss.before_rounding")
    column_losses = _Told[Mapping[str, ColumnLoss]]("loss.columns")
    guarantee = _Told[str]("request.guarantee")
    seconds = _Told[Mapping[str, float]]("made_by.seconds")
    seed_policy = _Told[str]("made_by.seed_policy")
    earlier_releases = _Told[str]("made_by.earlier_releases")
    verified = _Told[bool]("made_by.verified")
    loss_measure = _Told[str]("loss.measure")
    models = _Told[tuple[CountedModel, ...]]("counts.verdict.models")
    entity = _Told["str | None"]("request.entity")
    persons = _Told["int | None"]("counts.verdict.persons")
    k_rows = _Told["int | None"]("counts.verdict.k_rows")
    levels = _Told["Mapping[str, int] | None"]("loss.levels")
    telling = _Told[tuple[TellingColumn, ...]]("counts.telling")
    digest = _Told["str | None"]("made_by.digest")
    lost = _Told[tuple[str, ...]]("loss.completely")
    evaluation = _Told["Mapping[str, Any] | None"]("evaluated.figures")
    evaluation_failed = _Told["str | None"]("evaluated.failed")

    @property
    def few_persons(self) -> tuple[FewPersons, ...]:
        """Findings on columns that look like numbers of persons; looked for without entity."""
        return self.counts.few_persons

    @property
    def kept_identifiers(self) -> tuple[KeptIdentifier, ...]:
        """Columns that are released as they are, and look like identifiers."""
        return self.counts.identifiers

    @property
    def linking(self) -> tuple[LinkingColumn, ...]:
        """Columns that are released as they are, and single out rows that the classes hide."""
        return self.counts.linking

    @property
    def findings(self) -> tuple[TellingColumn | LinkingColumn | FewPersons | KeptIdentifier, ...]:
        """What was found of columns, that readers may not think of."""
        return (*self.kept_identifiers, *self.linking, *self.telling, *self.few_persons)

    @property
    def homogeneous(self) -> tuple[str, ...]:
        """Of sensitive columns without a privacy model: which classes reveal their value."""
        found = unprotected(self.homogeneity, self.arguments.get("models", ()))
        return tuple(one.describe() for one in found)

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """What whoever reads the release has to be told beside its guarantee."""
        own = cautions_of(self.arguments, self.entity)
        return (*self.counts.verdict.cautions, *own)

    @property
    def warned(self) -> tuple[str, ...]:
        """What it tells more than its readers may think, and what of it is lost."""
        return (
            *(f"{caution.what}; {caution.why}" for caution in self.cautions),
            *(f"column {found.describe(self.k_requested)}" for found in self.findings),
            *(f"column {text}" for text in (*self.homogeneous, *self.lost_told())),
            *(f"column {text}" for text in self.averaged_codes_told()),
        )

    def averaged_codes_told(self) -> list[str]:
        """Of each coded column that was averaged: that it was, and what would help."""
        return averaged_codes_told(self.arguments)

    def lost_told(self) -> list[str]:
        """Of each column that is lost completely: that it is, and what would help."""
        return [
            f'"{name}" is lost completely: all rows have one label. What helps: '
            + (
                "a hierarchy with more levels, fewer quasi-identifiers, or a smaller k"
                if name in self.arguments["hierarchies"]
                else "a hierarchy of its values, or their order"
            )
            + "; if its readers do not need it, do not copy it. Copied as it is, it may identify"
            " persons"
            for name in self.lost
        ]

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of ``to_dict``, in their order."""
        return tuple(name for name, value in vars(Report).items() if isinstance(value, _Told))

    def made(self, **changes: Any) -> Report:
        """The report with other values in ``made_by``."""
        return replace(self, made_by=replace(self.made_by, **changes))

    def after(
        self,
        earlier: int,
        caution: Caution | None = None,
        joint: Mapping[str, Any] | None = None,
    ) -> Report:
        """The report of a release whose source had so many releases before, and what that means.

        Parameters
        ----------
        joint : what a release with an entity says of joint histories, by ``JOINT``.
        """
        if not earlier:
            return self
        # The ledger has the arguments: the caution is reported again from there.
        report = self if caution is None else self.found(intersects=caution.what)
        known = EARLIER.format(NOT_CHECKED, earlier)
        # The command needs the ledger's record of persons, or a column of theirs in each release.
        if not joint or "share" in joint[JOINT]:
            known += ": dbanon chain measure counts them together"
        return report.made(earlier_releases=known)

    def requested(self, **changes: Any) -> Report:
        """The report with other values in ``request``."""
        return replace(self, request=replace(self.request, **changes))

    def found(self, **arguments: Any) -> Report:
        """The report with what was found of arguments."""
        return self.requested(arguments={**self.request.arguments, **arguments})

    def exported(self, files: Sequence[Mapping[str, Any]], seconds: Mapping[str, float]) -> Report:
        """The report with the files that were made of the release, and the seconds until then."""
        return self.found(exports=list(files)).made(seconds=dict(seconds))

    @property
    def by_method(self) -> Mapping[str, int]:
        """What the method says of its classes, by what was counted."""
        told: Mapping[str, int] = self.arguments.get("told", {})
        return told

    @property
    def suppressed_cells(self) -> Mapping[str, int]:
        """Cells that have a value in the source and are released as NULL, by quasi-identifier."""
        cells: Mapping[str, int] = self.arguments.get("suppressed_cells", {})
        return cells

    @property
    def nearness(self) -> str | None:
        """How near the loss is to the least possible one, in words; None where nobody asked."""
        told = self.arguments.get("certificate")
        return None if told is None else nearness(told)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        told = {name: plain(getattr(self, name)) for name in self.names()}
        # What must not be overlooked, on its first lines.
        first = {name: self.arguments.get(name) for name in (PERSON_ROWS, JOINT_ROWS, JOINT)}
        first["k_rows"] = self.k_rows
        first["homogeneity"] = told["homogeneity"] if self.homogeneous else ()
        told = {name: plain(value) for name, value in first.items() if value} | told
        for loss in told["column_losses"].values():
            # Its key says it.
            del loss["name"]
        return told

    def rows(self) -> list[tuple[str, str]]:
        """As ``pairs``."""
        return self.pairs()

    def pairs(self) -> list[tuple[str, str]]:
        """The report as pairs of label and text, for people."""

        def names(values: tuple[str, ...]) -> str:
            return ", ".join(values) or "none"

        measure, before = {
            "sse": ("SSE/SST", "before rounding to column types"),
            "iloss": ("iloss a cell", "on the classes' own ranges"),
            "gower": ("Gower's distance a cell", "before rounding to column types"),
        }[self.loss_measure]
        loss = loss_pair(self.information_loss, self.information_loss_before_rounding, before)
        holds = self.counts.verdict
        leading = first_cautions(self.arguments)
        first = first_pairs(holds, self.arguments)
        pairs = [
            *first,
            ("release", self.release_id),
            ("source", self.source),
            ("output", f"{self.output} ({self.output_kind}{in_new_schema(self.arguments)})"),
            ("method", f"{self.method}, dbanon {self.dbanon_version}"),
            ("quasi-identifiers", names(self.quasi_identifiers)),
            *(
                [("levels", ", ".join(f"{name} {level}" for name, level in self.levels.items()))]
                if self.levels is not None
                else []
            ),
            ("sensitive", names(self.sensitive)),
            ("kept", names(self.kept)),
            *passthrough_note(self.arguments),
            *files_note(self.arguments),
            *(("KEPT IDENTIFIER", one.describe(self.k_requested)) for one in self.kept_identifiers),
            *(("COLUMN LINKS", found.describe(self.k_requested)) for found in self.linking),
            *(("COLUMN TELLS", found.describe(self.k_requested)) for found in self.telling),
            *(("PERSONS", found.describe(self.k_requested)) for found in self.few_persons),
            ("not copied", names(self.not_copied)),
            ("rows in / out / suppressed", f"{self.rows_in} / {self.rows_out} / {self.suppressed}"),
            ("k requested / counted", f"{self.k_requested} / {self.k_achieved}{holds.counted}"),
            *homogeneity_pairs(self.homogeneity, self.arguments.get("models", ())),
            *((level.model, f"counted {level.achieved:.6g}") for level in self.models),
            (
                f"{holds.classes}: number, smallest / median / largest",
                f"{self.classes}, {self.smallest_class} / {self.median_class:g}"
                f" / {self.largest_class}",
            ),
            *told_of(self.arguments),
            *((one.title, one.why) for one in self.cautions if one not in leading),
            *(("CODES AVERAGED", text) for text in self.averaged_codes_told()),
            (f"information loss, {measure}", loss),
            *(
                (f"  {column.name}", loss_pair(column.released, column.before_rounding))
                for column in self.column_losses.values()
            ),
            *([("certificate", self.nearness)] if self.nearness else []),
            *(("COLUMN LOST", text) for text in self.lost_told()),
            *self.evaluated.rows(),
            (
                "seconds",
                ", ".join(f"{phase} {value:.2f}" for phase, value in self.seconds.items()),
            ),
            *export_pairs(self.arguments.get("exports", ())),
            ("seed policy", self.seed_policy),
            ("guarantee", self.guarantee),
            ("earlier releases", self.earlier_releases),
        ]
        if self.relation != self.output:
            pairs.insert(3 + len(first), ("released table", self.relation))
        return pairs
