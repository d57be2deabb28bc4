"""The guarantee of a chain's releases: k persons share each combination and each history."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dbanon.data.counts import Counts, Histories
from dbanon.data.frozen import dataclass
from dbanon.errors import (
    ChainExposed,
    ChainModelBroken,
    RecountFailed,
    TooFewRecords,
    TraceTooSmall,
    pluralize,
)
from dbanon.job.guarantee import OF_TABLES, REPORT_IT, Guarantee
from dbanon.job.verdict import ExpectedRelease, Verdict
from dbanon.measures.models import CountedModel
from dbanon.measures.recount import levels_reached

# Appended to a model that compares classes with a table: names that table.
BESIDE_FIRST = ", beside the chain's first release"


@dataclass(frozen=True)
class ChainGuarantee(Guarantee):
    """Every combination of released values is shared by k persons, and so is every history.

    Parameters
    ----------
    entity : the column that identifies the person of a row; it holds no NULL.
    chain : the name of the chain.
    tables : the number of tables that its persons have rows in. With several, k counts persons over
        all of them, and whether a person has a row in a table is a kept value.
    only_measured : True if each release builds new classes, and histories are only counted.
    max_exposed : largest share of persons whose history fewer than k may share if histories are
        only counted; None for no limit.
    """

    entity: str = ""
    chain: str = ""
    tables: int = 1
    only_measured: bool = False
    max_exposed: float | None = None

    @property
    def counted_columns(self) -> tuple[str, ...]:
        """The entity column. The database counts its values; it is not read."""
        return (self.entity,)

    @property
    def what(self) -> str:
        """What k counts."""
        return f'persons (distinct values of "{self.entity}")'

    @property
    def unit(self) -> str:
        """What k counts, in one word or few."""
        return "persons"

    @property
    def bounds_rows(self) -> bool:
        """False with several tables: only one of k persons may have a row in this table."""
        return self.tables == 1

    @property
    def k_in_rows(self) -> bool:
        """False with several tables, as ``bounds_rows``."""
        return self.tables == 1

    def _unit_warnings(self) -> tuple[str, ...]:
        model_warnings: tuple[str, ...] = ()
        if self.models and not self.only_measured:
            model_warnings = (
                "Classes that were merged for a privacy model may be told apart again by what the"
                f" model asked for: each of them has {self.k} persons, who share their history."
                " Newcomers who stay out for good reveal that the model kept them out.",
            )
        return (
            f'k counts persons, by the values of "{self.entity}", which are not released.',
            "Someone who knows that a person's kept values changed, or that they did not, knows"
            " more than the chain takes into account; so does anyone who sees releases outside it.",
            *model_warnings,
            *((OF_TABLES,) if self.tables > 1 else ()),
        )

    def sentence(self, columns: Collection[str]) -> str:
        """What a verified release of these quasi-identifiers guarantees."""
        text = super().sentence(columns)
        if self.tables > 1:
            text += f", in any of the {self.tables} tables of the chain"
        if self.only_measured:
            return f"{text}; over releases nothing is guaranteed: chain {self.chain} measures"
        merged = " of one class before classes were merged for models" if self.models else ""
        return (
            f"{text}; every history over the releases of chain {self.chain} is shared by at least"
            f" {self.k} persons{merged}"
        )

    def check(self, counts: Counts, expected: ExpectedRelease) -> Verdict:
        """The verdict on rows and histories that were counted.

        Raises
        ------
        TooFewRecords : the release would be empty.
        TraceTooSmall : fewer than k persons share a history.
        ChainModelBroken : a class violates a privacy model.
        RecountFailed : the written rows differ from the state of the chain.
        ChainExposed : too many persons have a history that fewer than k share.
        """
        histories = counts.histories
        assert histories is not None
        if not histories.persons:
            raise TooFewRecords(
                f"No one would be in this release of chain {self.chain}: {histories.waiting}"
                " persons wait, fewer than a class needs.",
                hint="Run it again when more persons are there.",
            )
        rows = histories.persons if histories.rows is None else histories.rows
        self._require_rows(counts.rows, replace(expected, rows=rows))
        self.require_histories(histories)
        return self.verdict(counts, self._levels(counts, expected))

    def require_histories(self, histories: Histories) -> None:
        """Check the counts of the chain's state.

        Raises
        ------
        TraceTooSmall, ChainModelBroken, RecountFailed, ChainExposed : as ``check``.
        """
        for n_wrong, description in (
            (histories.misplaced, "classes have other rows than their persons"),
            (histories.rewritten, "held classes have other rows than were shown"),
            (histories.uneven, "combinations have other rows than their classes"),
            (histories.apart, "combinations of joined tables are shared by fewer persons than k"),
        ):
            if n_wrong:
                raise RecountFailed(
                    f"{n_wrong} {description}; nothing was published.", hint=REPORT_IT
                )
        if self.only_measured:
            self.require_few(histories.exposed, histories.known)
        elif (
            min(histories.smallest, self.k if histories.fewest is None else histories.fewest)
            < self.k
        ):
            raise TraceTooSmall(
                f"A history over the releases of chain {self.chain} would be shared by"
                f" {pluralize(histories.smallest, 'person')}, fewer than k = {self.k}; nothing was"
                " published.",
                hint=REPORT_IT,
            )
        if histories.failing:
            raise ChainModelBroken(
                f"{histories.failing} classes of chain {self.chain} would violate a privacy model;"
                " nothing was published.",
                hint=REPORT_IT,
            )

    def require_few(self, exposed: int, n_persons: int) -> None:
        """Check that the share of exposed persons is within the limit.

        Raises
        ------
        ChainExposed : it is not.
        """
        if self.max_exposed is None or exposed <= self.max_exposed * n_persons:
            return
        raise ChainExposed(
            f"With this release {exposed} of {n_persons} persons would have a joint"
            f" history that fewer than {self.k} share, more than the allowed share"
            f" {self.max_exposed:g}; nothing was published.",
            hint="Raise max_exposed, or make the release in a chain of mode continue, where k"
            " persons share each history.",
        )

    def _levels(self, counts: Counts, expected: ExpectedRelease) -> tuple[CountedModel, ...]:
        """The levels; models that compare with the first release use the chain's state."""
        histories = counts.histories
        assert histories is not None
        first_release_levels = {
            number: CountedModel(f"{self.models[number].describe()}{BESIDE_FIRST}", level)
            for number, level in histories.levels.items()
        }
        recounted_models = [
            model for number, model in enumerate(self.models) if number not in first_release_levels
        ]
        recounted = iter(levels_reached(recounted_models, expected.sensitive, counts))
        return tuple(
            first_release_levels[number] if number in first_release_levels else next(recounted)
            for number in range(len(self.models))
        )

    def verdict(self, counts: Counts, levels: tuple[CountedModel, ...]) -> Verdict:
        """The verdict on the counted rows, of which each is a person, or on the counted persons."""
        histories = counts.histories
        assert histories is not None
        least = counts.rows.smallest if histories.fewest is None else histories.fewest
        return Verdict(
            least,
            least,
            levels,
            persons=histories.persons,
            ledger_values={"entity": self.entity, "persons": histories.persons}
            | ({"tables": self.tables} if self.tables > 1 else {}),
            counted=f' (persons: distinct values of "{self.entity}", {histories.persons} in all)',
        )
