"""The report on a release."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, Generic, TypeAlias, TypeVar, overload

from dbanon.data.counts import Recount
from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.data.words import LabelledTextWithHtml, read_key_or_former_key
from dbanon.job.verdict import Caution, Verdict
from dbanon.job.weight import CLASS_FORMS, WEIGHT_RECORD
from dbanon.measures.models import CountedModel
from dbanon.release.alignment import Alignment
from dbanon.release.attribute_disclosure import DisclosiveColumn, FewPersons, RetainedIdentifier
from dbanon.release.homogeneity import (
    ClassHomogeneity,
    describe_homogeneity,
    find_unprotected_columns,
)
from dbanon.release.joint import JOINT_HISTORIES
from dbanon.release.joint_rows import JOINT_ROWS, PERSON_ROWS
from dbanon.release.linkage import LinkingColumn
from dbanon.release.outcome import EvaluationOutcome as EvaluationOutcome
from dbanon.release.outcome import OperatorFigures
from dbanon.release.outcome import ReleaseLoss as ReleaseLoss
from dbanon.release.recode import ColumnLoss
from dbanon.release.words import (
    LOSS_LABELS,
    describe_averaged_codes,
    describe_counts,
    describe_exports,
    describe_files_of_other_accounts,
    describe_mostly_suppressed_columns,
    describe_nearness,
    describe_new_schema,
    describe_passthrough,
    format_losses,
    list_cautions,
    list_leading_cautions,
    list_leading_pairs,
    suppresses_cells,
    to_json_values,
)

T = TypeVar("T")
NOT_CHECKED = "not checked against earlier releases"
# A template for ``NOT_CHECKED`` and the number of earlier releases.
_EARLIER_RELEASES = "{}; the ledger has {} of the same source"
SEED_POLICY = (
    "classes: reproducible; row order: fresh from the operating system's random source, not stored"
)


@dataclass(frozen=True)
class Request:
    """The requested source, output, options and columns of a release.

    Parameters
    ----------
    source, output, output_kind : the relation that was read, the relation for readers, and whether
        this is a table or a view.
    arguments : the options of the release and, under further keys, some results of the run, such as
        ``models`` and ``exports``; JSON values, as in the ledger.
    quasi_identifiers, sensitive, kept, not_copied : columns by their role in the release; ``kept``
        has other columns that are copied unchanged, ``not_copied`` those that are left out.
    k : the requested k.
    entity : the column whose values k counts; None if k counts rows.
    guarantee : the guarantee as text.
    """

    source: str
    output: str
    output_kind: str
    method: str
    arguments: JsonMapping
    quasi_identifiers: tuple[str, ...]
    sensitive: tuple[str, ...]
    kept: tuple[str, ...]
    not_copied: tuple[str, ...]
    k: int
    entity: str | None
    guarantee: str


@dataclass(frozen=True)
class RecountResult:
    """The counts and findings from recounting the written rows before publication.

    Parameters
    ----------
    rows_in, suppressed : number of records of the source, and of withheld records.
    rows : the recount of classes: the number of released rows, of classes, and their sizes.
    verdict : whether the guarantee holds.
    disclosive_columns : retained columns that single out rows or determine a quasi-identifier.
    identifiers : retained columns that look like person identifiers.
    linking : retained columns that single out rows that the classes hide.
    few_persons : findings on columns that look like person identifiers, if k counts rows.
    homogeneity : for each sensitive column, the number of classes whose rows share one value.
    joint_counts : how many persons share the combined classes of a person's rows, and how many
        share a person's classes in several releases; by key of the report's arguments.
    """

    rows_in: int
    suppressed: int
    rows: Recount
    verdict: Verdict
    disclosive_columns: tuple[DisclosiveColumn, ...] = ()
    few_persons: tuple[FewPersons, ...] = ()
    identifiers: tuple[RetainedIdentifier, ...] = ()
    linking: tuple[LinkingColumn, ...] = ()
    homogeneity: tuple[ClassHomogeneity, ...] = ()
    joint_counts: JsonMapping = field(default_factory=dict)


@dataclass(frozen=True)
class Provenance:
    """The provenance of a release: its id, and how and when it was made.

    Parameters
    ----------
    relation : the table that holds the release.
    seconds : durations by phase, and in ``total``.
    digest : the digest of the written rows, as in the ledger; None for data frames.
    seed_policy : which parts of the release a seed reproduces.
    earlier_releases : whether the release was checked against earlier ones of its source.
    verified : always True, because a release is published only after its recount.
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


if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    class RequestChanges(TypedDict, total=False):
        """The fields of ``Request`` that a run knows only later."""

        source: str
        output: str
        output_kind: str
        arguments: JsonMapping
        not_copied: tuple[str, ...]
        guarantee: str

    class ProvenanceChanges(TypedDict, total=False):
        """The fields of ``Provenance`` that a run knows only later."""

        release_id: str
        created_at: str
        relation: str
        seconds: Mapping[str, float]
        digest: str | None
        seed_policy: str
        earlier_releases: str


# A finding on a retained column.
Finding: TypeAlias = DisclosiveColumn | LinkingColumn | FewPersons | RetainedIdentifier


class _ReportField(Generic[T]):
    """An attribute of a report that reads its value from one of the report's groups.

    ``path`` names the group and the field in it, such as ``counts.verdict.k``.
    """

    def __init__(self, path: str) -> None:
        self._get_value: Callable[[Report], T] = attrgetter(path)

    @overload
    def __get__(self, report: None, owner: type[Report]) -> _ReportField[T]: ...

    @overload
    def __get__(self, report: Report, owner: type[Report]) -> T: ...

    def __get__(self, report: Report | None, owner: type[Report]) -> T | _ReportField[T]:
        return self if report is None else self._get_value(report)


@dataclass(frozen=True, repr=False)
class Report(LabelledTextWithHtml):
    """Report on a release: what it is, its information loss, and how it was made.

    Contains no source values, except values that the caller wrote into the arguments, such as
    ``{"ordered": ["low", "high"]}`` for a hierarchy builder.

    Values of its groups (``request``, ``counts``, …) are also attributes of the report:
    ``report.k_achieved`` is ``report.counts.verdict.k``. ``to_dict`` returns these attributes in
    the order below.

    ``loss_measure`` names the measure of the losses, see ``ReleaseLoss``. Readers may see these
    losses. The exact losses are in ``internal``; they exist only during the run and in one table of
    the ledger, and no text, JSON, pickle or page of a report contains them.

    ``k_achieved`` and ``persons`` count persons if ``entity`` names the column that identifies
    them; class sizes are numbers of rows. If each attribute has its own classes, ``k_rows`` is the
    number of rows that share the rarest combination of values.

    ``levels`` are the full-domain levels, by quasi-identifier. ``disclosive_columns`` are findings
    on retained columns. ``lost_columns`` are the quasi-identifiers released as ``*`` or the root of
    their hierarchy in every row. Until version 1.0, reports also have ``disclosive_columns`` under
    the former name ``telling``, and ``lost_columns`` as ``lost``.

    ``evaluation`` is ``Evaluation.to_dict()`` with the option ``evaluate``, and
    ``evaluation_failed`` is the reason if it is missing.
    """

    request: Request
    counts: RecountResult
    loss: ReleaseLoss
    made_by: Provenance
    evaluation_outcome: EvaluationOutcome = field(default_factory=EvaluationOutcome)
    internal: OperatorFigures | None = field(default=None, repr=False, compare=False)
    # Not a dataclass field, so that ``replace`` and serializers leave it out.
    alignment: ClassVar[Alignment | None] = None

    release_id = _ReportField[str]("made_by.release_id")
    created_at = _ReportField[str]("made_by.created_at")
    dbanon_version = _ReportField[str]("made_by.dbanon_version")
    source = _ReportField[str]("request.source")
    output = _ReportField[str]("request.output")
    output_kind = _ReportField[str]("request.output_kind")
    relation = _ReportField[str]("made_by.relation")
    method = _ReportField[str]("request.method")
    arguments = _ReportField[JsonMapping]("request.arguments")
    quasi_identifiers = _ReportField[tuple[str, ...]]("request.quasi_identifiers")
    sensitive = _ReportField[tuple[str, ...]]("request.sensitive")
    kept = _ReportField[tuple[str, ...]]("request.kept")
    not_copied = _ReportField[tuple[str, ...]]("request.not_copied")
    rows_in = _ReportField[int]("counts.rows_in")
    rows_out = _ReportField[int]("counts.rows.rows")
    suppressed = _ReportField[int]("counts.suppressed")
    null_rows = _ReportField[int]("counts.rows.null_rows")
    classes = _ReportField[int]("counts.rows.classes")
    smallest_class = _ReportField[int]("counts.rows.smallest")
    median_class = _ReportField[float]("counts.rows.median")
    largest_class = _ReportField[int]("counts.rows.largest")
    k_requested = _ReportField[int]("request.k")
    k_achieved = _ReportField[int]("counts.verdict.k")
    homogeneity = _ReportField[tuple[ClassHomogeneity, ...]]("counts.homogeneity")
    information_loss = _ReportField[float]("loss.released")
    information_loss_before_rounding = _ReportField[float]("loss.before_rounding")
    column_losses = _ReportField[Mapping[str, ColumnLoss]]("loss.columns")
    guarantee = _ReportField[str]("request.guarantee")
    seconds = _ReportField[Mapping[str, float]]("made_by.seconds")
    seed_policy = _ReportField[str]("made_by.seed_policy")
    earlier_releases = _ReportField[str]("made_by.earlier_releases")
    verified = _ReportField[bool]("made_by.verified")
    loss_measure = _ReportField[str]("loss.measure")
    models = _ReportField[tuple[CountedModel, ...]]("counts.verdict.models")
    entity = _ReportField["str | None"]("request.entity")
    persons = _ReportField["int | None"]("counts.verdict.persons")
    k_rows = _ReportField["int | None"]("counts.verdict.k_rows")
    levels = _ReportField["Mapping[str, int] | None"]("loss.levels")
    # ``telling`` and, below, ``lost`` are former names, which stay until version 1.0.
    telling = _ReportField[tuple[DisclosiveColumn, ...]]("counts.disclosive_columns")
    digest = _ReportField["str | None"]("made_by.digest")
    lost = _ReportField[tuple[str, ...]]("loss.lost_columns")
    evaluation = _ReportField["JsonMapping | None"]("evaluation_outcome.figures")
    evaluation_failed = _ReportField["str | None"]("evaluation_outcome.failed")
    disclosive_columns = _ReportField[tuple[DisclosiveColumn, ...]]("counts.disclosive_columns")
    lost_columns = _ReportField[tuple[str, ...]]("loss.lost_columns")

    @property
    def few_persons(self) -> tuple[FewPersons, ...]:
        """Findings on columns that look like person identifiers, if k counts rows."""
        return self.counts.few_persons

    @property
    def kept_identifiers(self) -> tuple[RetainedIdentifier, ...]:
        """Retained columns that look like identifiers."""
        return self.counts.identifiers

    @property
    def linking(self) -> tuple[LinkingColumn, ...]:
        """Retained columns that single out rows that the classes hide."""
        return self.counts.linking

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings on columns."""
        return (*self.kept_identifiers, *self.linking, *self.disclosive_columns, *self.few_persons)

    @property
    def null_agrees(self) -> bool:
        """Whether NULL agrees with every value, so that k counts rows that agree."""
        return self.counts.rows.agreeing_rows is not None

    @property
    def homogeneous(self) -> tuple[str, ...]:
        """Descriptions of sensitive columns with homogeneous classes and no privacy model."""
        homogeneity = find_unprotected_columns(self.homogeneity, self.arguments.get("models", ()))
        return tuple(finding.describe(null_agrees=self.null_agrees) for finding in homogeneity)

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """Cautions for readers of the release, in addition to its guarantee."""
        argument_cautions = list_cautions(self.arguments, self.entity)
        return (*self.counts.verdict.cautions, *argument_cautions)

    @property
    def warning_texts(self) -> tuple[str, ...]:
        """Texts of all warnings: cautions, findings on columns, and lost columns."""
        return (
            *(f"{caution.warning}; {caution.reason}" for caution in self.cautions),
            *(f"column {finding.describe(self.k_requested)}" for finding in self.findings),
            *(f"column {text}" for text in (*self.homogeneous, *self.describe_lost_columns())),
            *(f"column {text}" for text in self.describe_averaged_columns()),
        )

    @property
    def averaged_weights(self) -> tuple[str, ...]:
        """The design weight, if each class is released with one weight; otherwise empty."""
        record = self.arguments.get(WEIGHT_RECORD, {})
        return (str(record["column"]),) if record.get("as") in CLASS_FORMS else ()

    def describe_averaged_columns(self) -> list[str]:
        """Describe each coded column that was averaged, and suggest another kind."""
        return describe_averaged_codes(self.arguments)

    def describe_lost_columns(self) -> list[str]:
        """Describe each column that is lost completely, and suggest remedies.

        If the method suppresses cells, this describes columns that lost most of their values, too.
        """
        suppressed = []
        if suppresses_cells(self.arguments):
            suppressed = describe_mostly_suppressed_columns(self.arguments, self.rows_out)
        return suppressed + [
            f'"{name}" is lost completely: all rows have one label. What helps: '
            + (
                "a hierarchy with more levels, fewer quasi-identifiers, or a smaller k"
                if name in self.arguments["hierarchies"]
                else "a hierarchy of its values, or their order"
            )
            + "; if readers do not need it, leave it out. Copied as it is, it may identify persons"
            for name in self.lost_columns
        ]

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the keys of ``to_dict``, in their order."""
        return tuple(
            name for name, value in vars(Report).items() if isinstance(value, _ReportField)
        )

    def with_provenance(self, **changes: Unpack[ProvenanceChanges]) -> Report:
        """Return a copy of the report with other values in ``made_by``."""
        return replace(self, made_by=replace(self.made_by, **changes))

    def with_earlier_releases(
        self,
        n_earlier: int,
        caution: Caution | None = None,
        joint_arguments: JsonMapping | None = None,
    ) -> Report:
        """Return a copy of the report that mentions earlier releases of the source.

        Parameters
        ----------
        n_earlier : the number of earlier releases of the same source.
        caution : a caution about intersections with earlier releases; None if there is none.
        joint_arguments : the description of joint histories, under the key ``JOINT_HISTORIES``.
            It has no such key if k counted other persons, or rows, in the earlier releases; None if
            there is no entity.
        """
        if not n_earlier:
            return self
        # The ledger stores arguments, so reports from the ledger have the caution, too.
        report = self if caution is None else self.with_arguments(intersects=caution.warning)
        text = _EARLIER_RELEASES.format(NOT_CHECKED, n_earlier)
        # Name the command that counts joint histories, unless the run found that they cannot be
        # counted: then there is no "share".
        histories = (joint_arguments or {}).get(JOINT_HISTORIES)
        if histories is None or "share" in histories:
            text += ": dbanon chain measure counts them together"
        return report.with_provenance(earlier_releases=text)

    def with_request(self, **changes: Unpack[RequestChanges]) -> Report:
        """Return a copy of the report with other values in ``request``."""
        return replace(self, request=replace(self.request, **changes))

    def with_arguments(self, **arguments: object) -> Report:
        """Return a copy of the report with additional arguments."""
        return self.with_request(arguments={**self.request.arguments, **arguments})

    def with_exports(self, files: Sequence[JsonMapping], seconds: Mapping[str, float]) -> Report:
        """Return a copy of the report with the exported files, and updated durations."""
        return self.with_arguments(exports=list(files)).with_provenance(seconds=dict(seconds))

    @property
    def method_counts(self) -> Mapping[str, int]:
        """Counts that the method reports about its own work, by name."""
        counts: Mapping[str, int] = read_key_or_former_key(self.arguments, "method_counts", {})
        return counts

    @property
    def suppressed_cells(self) -> Mapping[str, int]:
        """Cells that have a value in the source and are released as NULL, by quasi-identifier."""
        cells: Mapping[str, int] = self.arguments.get("suppressed_cells", {})
        return cells

    @property
    def nearness(self) -> str | None:
        """Text about how near the loss is to the minimum; None without a certificate."""
        certificate = self.arguments.get("certificate")
        return None if certificate is None else describe_nearness(certificate)

    def to_dict(self) -> JsonObject:
        """Return the report as JSON values."""
        values = {name: to_json_values(getattr(self, name)) for name in self.names()}
        # Put first what readers must not overlook.
        leading_values = {
            name: self.arguments.get(name) for name in (PERSON_ROWS, JOINT_ROWS, JOINT_HISTORIES)
        }
        leading_values["k_rows"] = self.k_rows
        # Homogeneous classes lead only if a column that has them has no privacy model.
        leading_values["homogeneity"] = values["homogeneity"] if self.homogeneous else ()
        leading_values = {
            name: to_json_values(value) for name, value in leading_values.items() if value
        }
        # The first occurrence of a key decides its place, the last its value.
        values = leading_values | values
        for loss in values["column_losses"].values():
            # The name is already the key.
            del loss["name"]
        return values

    def rows(self) -> list[tuple[str, str]]:
        """Return the same as ``pairs``."""
        return self.pairs()

    def pairs(self) -> list[tuple[str, str]]:
        """Return the report as pairs of label and text, for display."""

        def join_names(names: tuple[str, ...]) -> str:
            return ", ".join(names) or "none"

        measure, before_label = LOSS_LABELS[self.loss_measure]
        loss = format_losses(
            self.information_loss, self.information_loss_before_rounding, before_label
        )
        verdict = self.counts.verdict
        leading_cautions = list_leading_cautions(self.arguments)  # in ``leading_pairs``
        leading_pairs = list_leading_pairs(verdict, self.arguments)
        findings_by_title: dict[str, Sequence[Finding]] = {
            "KEPT IDENTIFIER": self.kept_identifiers,
            "LINKING COLUMN": self.linking,
            "DISCLOSIVE COLUMN": self.disclosive_columns,
            "PERSON IDENTIFIER": self.few_persons,
        }
        pairs = [
            *leading_pairs,
            ("release", self.release_id),
            ("source", self.source),
            ("output", f"{self.output} ({self.output_kind}{describe_new_schema(self.arguments)})"),
            ("method", f"{self.method}, dbanon {self.dbanon_version}"),
            ("quasi-identifiers", join_names(self.quasi_identifiers)),
            *(
                [("levels", ", ".join(f"{name} {level}" for name, level in self.levels.items()))]
                if self.levels is not None
                else []
            ),
            ("sensitive", join_names(self.sensitive)),
            ("kept", join_names(self.kept)),
            *describe_passthrough(self.arguments),
            *describe_files_of_other_accounts(self.arguments),
            *(
                (title, finding.describe(self.k_requested))
                for title, findings in findings_by_title.items()
                for finding in findings
            ),
            ("not copied", join_names(self.not_copied)),
            ("rows in / out / suppressed", f"{self.rows_in} / {self.rows_out} / {self.suppressed}"),
            (
                "k requested / counted",
                f"{self.k_requested} / {self.k_achieved}{verdict.unit_suffix}",
            ),
            *describe_homogeneity(
                self.homogeneity, self.arguments.get("models", ()), null_agrees=self.null_agrees
            ),
            *((model.model, f"counted {model.achieved:.6g}") for model in self.models),
            (
                f"{verdict.classes_text}: number, smallest / median / largest",
                f"{self.classes}, {self.smallest_class} / {self.median_class:g}"
                f" / {self.largest_class}",
            ),
            *describe_counts(self.arguments),
            *((c.title, c.reason) for c in self.cautions if c not in leading_cautions),
            *(("CODES AVERAGED", text) for text in self.describe_averaged_columns()),
            (f"information loss, {measure}", loss),
            *(
                (f"  {column.name}", format_losses(column.released, column.before_rounding))
                for column in self.column_losses.values()
            ),
            *([("certificate", self.nearness)] if self.nearness else []),
            *(("COLUMN LOST", text) for text in self.describe_lost_columns()),
            *self.evaluation_outcome.pairs(),
            (
                "seconds",
                ", ".join(f"{phase} {value:.2f}" for phase, value in self.seconds.items()),
            ),
            *describe_exports(self.arguments.get("exports", ())),
            ("seed policy", self.seed_policy),
            ("guarantee", self.guarantee),
            ("earlier releases", self.earlier_releases),
        ]
        if self.relation != self.output:
            # After the lines with the release, its source and its output.
            pairs.insert(3 + len(leading_pairs), ("released table", self.relation))
        return pairs
