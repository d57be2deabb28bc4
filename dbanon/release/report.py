"""Report: what is said about what is published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from dbanon.data.counts import rarest_row
from dbanon.measures.models import CountedModel
from dbanon.release.recode import ColumnLoss

NOT_CHECKED = "not checked against earlier releases"
SEED_POLICY = (
    "classes: reproducible; row order: fresh from the operating system's random source, not stored"
)


@dataclass(frozen=True)
class TellingColumn:
    """A column that is released as it is, and tells rows apart or what a quasi-identifier was.

    Parameters
    ----------
    name : the column.
    determines : the quasi-identifier whose original values follow from it; None where its values
        are each shared by too few rows.
    share : the share of released rows, of those that have a value in it, that this is so of at
        least.
    """

    name: str
    determines: str | None
    share: float

    def describe(self, k: int) -> str:
        """What was found, in words."""
        share = "all" if self.share == 1 else f"at least {self.share:.0%} of the"
        rows = f"{share} released rows that have a value"
        if self.determines is None:
            return f'"{self.name}" is nearly unique: fewer than {k} share it, in {rows}'
        return f'"{self.name}" determines what "{self.determines}" was, in {rows}'


@dataclass(frozen=True)
class Report:
    """What a release is, what it lost and how it was made. Holds no value of a column.

    Seconds are per phase: ``read``, ``cluster``, ``write``, ``verify``. Losses are SSE/SST on
    z-scores, 0 to 1, over the released records. ``k_achieved`` and ``persons`` count persons where
    ``entity`` names their column; class sizes are rows. ``k_rows`` is not None where classes are
    those of each attribute by itself: the rows that share the rarest combination of values.
    ``levels`` are those of a full domain, by quasi-identifier. ``telling`` are findings on columns
    that are released as they are; they were looked for in every release. ``digest`` is that of the
    rows that were written, as the ledger has it; None for data frames.
    """

    release_id: str
    created_at: str
    dbanon_version: str
    source: str
    output: str
    output_kind: str
    relation: str
    method: str
    arguments: Mapping[str, Any]
    quasi_identifiers: tuple[str, ...]
    sensitive: tuple[str, ...]
    kept: tuple[str, ...]
    not_copied: tuple[str, ...]
    rows_in: int
    rows_out: int
    suppressed: int
    null_rows: int
    classes: int
    smallest_class: int
    median_class: float
    largest_class: int
    k_requested: int
    k_achieved: int
    information_loss: float
    information_loss_before_rounding: float
    column_losses: tuple[ColumnLoss, ...]
    guarantee: str
    seconds: Mapping[str, float] = field(default_factory=dict)
    seed_policy: str = SEED_POLICY
    earlier_releases: str = NOT_CHECKED
    verified: bool = True
    loss_measure: str = "sse"
    models: tuple[CountedModel, ...] = ()
    entity: str | None = None
    persons: int | None = None
    k_rows: int | None = None
    levels: Mapping[str, int] | None = None
    telling: tuple[TellingColumn, ...] = ()
    digest: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """The report as pairs of label and text, for people."""

        def names(values: tuple[str, ...]) -> str:
            return ", ".join(values) or "none"

        measure, before = {
            "sse": ("SSE/SST", "before rounding to column types"),
            "iloss": ("iloss a cell", "on the classes' own ranges"),
        }[self.loss_measure]
        loss = f"{self.information_loss:.6f}"
        loss += f" ({self.information_loss_before_rounding:.6f} {before})"

        counted = ""
        if self.entity is not None:
            counted = f' (persons: distinct values of "{self.entity}", {self.persons} in all)'

        classes = "classes"
        if self.k_rows is not None:
            classes, counted = "classes of each attribute", " (of each attribute by itself)"

        pairs = [
            ("release", self.release_id),
            ("source", self.source),
            ("output", f"{self.output} ({self.output_kind})"),
            ("method", f"{self.method}, dbanon {self.dbanon_version}"),
            ("quasi-identifiers", names(self.quasi_identifiers)),
            *(
                [("levels", ", ".join(f"{name} {level}" for name, level in self.levels.items()))]
                if self.levels is not None
                else []
            ),
            ("sensitive", names(self.sensitive)),
            ("kept", names(self.kept)),
            *(("COLUMN TELLS", found.describe(self.k_requested)) for found in self.telling),
            ("not copied", names(self.not_copied)),
            ("rows in / out / suppressed", f"{self.rows_in} / {self.rows_out} / {self.suppressed}"),
            ("k requested / counted", f"{self.k_requested} / {self.k_achieved}{counted}"),
            *((level.model, f"counted {level.achieved:.6g}") for level in self.models),
            (
                f"{classes}: number, smallest / median / largest",
                f"{self.classes}, {self.smallest_class} / {self.median_class:g}"
                f" / {self.largest_class}",
            ),
            (f"information loss, {measure}", loss),
            *(
                (
                    f"  {column.name}",
                    f"{column.released:.6f} ({column.before_rounding:.6f})",
                )
                for column in self.column_losses
            ),
            (
                "seconds",
                ", ".join(f"{phase} {value:.2f}" for phase, value in self.seconds.items()),
            ),
            ("seed policy", self.seed_policy),
            ("guarantee", self.guarantee),
            ("earlier releases", self.earlier_releases),
        ]
        if self.k_rows is not None:
            place = [label for label, _ in pairs].index(f"information loss, {measure}")
            pairs.insert(place, ("ROWS ARE NOT k-ANONYMOUS", rarest_row(self.k_rows)))
        if self.relation != self.output:
            pairs.insert(3, ("released table", self.relation))
        return pairs
