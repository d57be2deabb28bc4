"""What a release of a chain guarantees: k persons a combination, and a history."""

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
    counted,
)
from dbanon.job.guarantee import OF_TABLES, REPORT_IT, Guarantee
from dbanon.job.verdict import Expected, Verdict
from dbanon.measures.models import CountedModel
from dbanon.measures.recount import levels_reached

# Behind the words of a model that compares with a table: which one that is.
BESIDE_FIRST = ", beside the chain's first release"


@dataclass(frozen=True)
class OfChain(Guarantee):
    """Every combination of released values is shared by k persons, and so is every history.

    Parameters
    ----------
    entity : the column that says whose a row is; every person has one.
    chain : the name of the chain.
    tables : the tables that its persons have rows in. Of several, k is of persons, whatever tables
        they have rows in: who has one in a table is kept.
    only_measured : True where classes are found afresh, and histories are counted, not kept.
    max_exposed : the share of persons whose history fewer than k may share then; None for all.
    """

    entity: str = ""
    chain: str = ""
    tables: int = 1
    only_measured: bool = False
    max_exposed: float | None = None

    @property
    def looked_at(self) -> tuple[str, ...]:
        """The column that persons are told apart by, in the database: it is not read."""
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
        """False of several tables: of k persons one may have a row in this one."""
        return self.tables == 1

    @property
    def k_in_rows(self) -> bool:
        """False of several tables, as ``bounds_rows``."""
        return self.tables == 1

    def _of_what(self) -> tuple[str, ...]:
        of_models: tuple[str, ...] = ()
        if self.models and not self.only_measured:
            of_models = (
                "Classes that were merged for a privacy model may be told apart again by what the"
                f" model asked for: each of them has {self.k} persons, who share their history."
                " Newcomers who stay out for good reveal that the model kept them out.",
            )
        return (
            f'k counts persons, by the values of "{self.entity}", which are not released.',
            "Someone who knows that a person's kept values changed, or that they did not, knows"
            " more than the chain takes into account; so does anyone who sees releases outside it.",
            *of_models,
            *((OF_TABLES,) if self.tables > 1 else ()),
        )

    def sentence(self, columns: Collection[str]) -> str:
        """What a verified release of these quasi-identifiers guarantees."""
        alone = super().sentence(columns)
        if self.tables > 1:
            alone += f", in any of the {self.tables} tables of the chain"
        if self.only_measured:
            return f"{alone}; over releases nothing is guaranteed: chain {self.chain} measures"
        merged = " of one class before classes were merged for models" if self.models else ""
        return (
            f"{alone}; every history over the releases of chain {self.chain} is shared by at least"
            f" {self.k} persons{merged}"
        )

    def check(self, counts: Counts, expected: Expected) -> Verdict:
        """The verdict on rows and histories that were counted.

        Raises
        ------
        TooFewRecords : nobody would be in the release.
        TraceTooSmall : a history is shared by too few.
        ChainModelBroken : a class does not keep to a privacy model.
        RecountFailed : rows are not those that the state says.
        ChainExposed : too many persons have a history that too few share.
        """
        found = counts.histories
        assert found is not None
        if not found.persons:
            raise TooFewRecords(
                f"Nobody would be in this release of chain {self.chain}: {found.waiting} persons"
                " wait, fewer than a class needs.",
                hint="Run it again when more persons are there.",
            )
        rows = found.persons if found.rows is None else found.rows
        self._require_rows(counts.rows, replace(expected, rows=rows))
        self.require_histories(found)
        return self.verdict(counts, self._levels(counts, expected))

    def require_histories(self, found: Histories) -> None:
        """Check what was counted on the state of the chain.

        Raises
        ------
        TraceTooSmall, ChainModelBroken, RecountFailed, ChainExposed : as ``check``.
        """
        for wrong, what in (
            (found.misplaced, "classes have other rows than their persons"),
            (found.rewritten, "held classes have other rows than were shown"),
            (found.uneven, "combinations have other rows than their classes"),
            (found.apart, "combinations of joined tables are shared by fewer persons than k"),
        ):
            if wrong:
                raise RecountFailed(f"{wrong} {what}; nothing was published.", hint=REPORT_IT)
        if self.only_measured:
            self.require_few(found.exposed, found.known)
        elif min(found.smallest, self.k if found.fewest is None else found.fewest) < self.k:
            raise TraceTooSmall(
                f"A history over the releases of chain {self.chain} would be shared by"
                f" {counted(found.smallest, 'person')}, fewer than k = {self.k}; nothing was"
                " published.",
                hint=REPORT_IT,
            )
        if found.failing:
            raise ChainModelBroken(
                f"{found.failing} classes of chain {self.chain} would not keep to a privacy model;"
                " nothing was published.",
                hint=REPORT_IT,
            )

    def require_few(self, exposed: int, known: int) -> None:
        """Check that no more persons are exposed than are allowed.

        Raises
        ------
        ChainExposed : there are.
        """
        if self.max_exposed is None or exposed <= self.max_exposed * known:
            return
        raise ChainExposed(
            f"With this release {exposed} of {known} persons would have a joint"
            f" history that fewer than {self.k} share, more than the allowed share"
            f" {self.max_exposed:g}; nothing was published.",
            hint="Allow more, or keep histories: a chain of mode continue.",
        )

    def _levels(self, counts: Counts, expected: Expected) -> tuple[CountedModel, ...]:
        """The levels; of models that compare classes with the first release, those of the state."""
        histories = counts.histories
        assert histories is not None
        beside = {
            number: CountedModel(f"{self.models[number].describe()}{BESIDE_FIRST}", level)
            for number, level in histories.levels.items()
        }
        here = [model for number, model in enumerate(self.models) if number not in beside]
        found = iter(levels_reached(here, expected.sensitive, counts))
        return tuple(
            beside[number] if number in beside else next(found)
            for number in range(len(self.models))
        )

    def verdict(self, counts: Counts, levels: tuple[CountedModel, ...]) -> Verdict:
        """The verdict on rows that were counted: each is a person's, or persons were counted."""
        found = counts.histories
        assert found is not None
        least = counts.rows.smallest if found.fewest is None else found.fewest
        return Verdict(
            least,
            least,
            levels,
            persons=found.persons,
            noted={"entity": self.entity, "persons": found.persons}
            | ({"tables": self.tables} if self.tables > 1 else {}),
            counted=f' (persons: distinct values of "{self.entity}", {found.persons} in all)',
        )
