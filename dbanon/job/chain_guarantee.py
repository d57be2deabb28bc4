"""The guarantee of a chain's releases: k persons share each combination and each history.

A history is the sequence of released values of a person over the releases of a chain. The error
``TraceTooSmall`` calls it a trace.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dbanon.data.counts import ChainCounts, Counts
from dbanon.data.frozen import dataclass
from dbanon.errors import (
    ChainExposed,
    ChainModelBroken,
    RecountFailed,
    TooFewRecords,
    TraceTooSmall,
    pluralize,
)
from dbanon.job.guarantee import REPORT_IT, SEVERAL_TABLES_WARNING, Guarantee
from dbanon.job.verdict import ExpectedRelease, Verdict
from dbanon.measures.models import CountedModel
from dbanon.measures.recount import require_levels

# Appended to the description of a model that compares classes with the chain's first release.
# Ledgers contain this text, so it must not change.
FIRST_RELEASE_SUFFIX = ", beside the chain's first release"


@dataclass(frozen=True)
class ChainGuarantee(Guarantee):
    """At least k persons share every combination of released values, and every history.

    Parameters
    ----------
    entity : the column that identifies the person of a row; it holds no NULL. ``entity_columns`` is
        empty: the chain's own tables count the persons.
    chain : the name of the chain.
    n_tables : the number of tables of the chain. With several, k counts persons over all of them.
        Whether a person has a row in a table is then like a retained value: classes do not hide it.
    only_measured : True if each release builds new classes, and the chain only counts how many
        persons share a history.
    max_exposed : the largest allowed fraction of persons whose history is shared by fewer than k
        persons, in a chain that only counts histories; None for no limit.
    """

    # ``entity`` and ``chain`` have defaults only because fields of the base class do. Both are
    # always set.
    entity: str = ""
    chain: str = ""
    n_tables: int = 1
    only_measured: bool = False
    max_exposed: float | None = None

    @property
    def counted_columns(self) -> tuple[str, ...]:
        """The entity column, whose values the database counts without sending them."""
        return (self.entity,)

    @property
    def unit_description(self) -> str:
        """What k counts, with the column whose values identify persons."""
        return f'persons (distinct values of "{self.entity}")'

    @property
    def unit(self) -> str:
        """What k counts, in a word or two."""
        return "persons"

    @property
    def has_k_anonymous_rows(self) -> bool:
        """False with several tables: only one of k persons may have a row in this table."""
        return self.n_tables == 1

    @property
    def classes_have_k_rows(self) -> bool:
        """False with several tables: a class may have fewer rows than persons in this table."""
        return self.n_tables == 1

    def _unit_warnings(self) -> tuple[str, ...]:
        """Warnings about what k counts, and about what the guarantee does not cover."""
        model_warnings: tuple[str, ...] = ()
        if self.models and not self.only_measured:
            model_warnings = (
                "A reader who knows what a privacy model requires may be able to tell apart the"
                f" classes that were merged for it: each of them has {self.k} persons, who share"
                " their history."
                " Newcomers who never enter the chain reveal that a model excluded them.",
            )
        return (
            f'k counts persons, by the values of "{self.entity}", which are not released.',
            "Someone who knows that a person's kept values changed, or that they did not, knows"
            " more than the chain takes into account; so does anyone who sees releases outside it.",
            *model_warnings,
            *((SEVERAL_TABLES_WARNING,) if self.n_tables > 1 else ()),
        )

    def describe(self, columns: Collection[str]) -> str:
        """What a verified release of these quasi-identifiers guarantees."""
        text = super().describe(columns)
        if self.n_tables > 1:
            text += f", in any of the {self.n_tables} tables of the chain"
        if self.only_measured:
            return (
                f"{text}; nothing is guaranteed across releases: chain {self.chain} only measures"
            )
        merged_suffix = (
            ", who were in one class before classes were merged for models" if self.models else ""
        )
        return (
            f"{text}; every history over the releases of chain {self.chain} is shared by at least"
            f" {self.k} persons{merged_suffix}"
        )

    def check(self, counts: Counts, expected: ExpectedRelease) -> Verdict:
        """Check the counts of rows and histories, and return the verdict on them.

        Raises
        ------
        TooFewRecords : the release would be empty.
        TraceTooSmall : fewer than k persons share a history.
        ChainModelBroken : a class violates a privacy model.
        RecountFailed : the written rows differ from the state of the chain.
        ChainExposed : too many persons have a history that fewer than k share.
        """
        chain_counts = counts.chain_counts
        assert chain_counts is not None
        if not chain_counts.persons:
            raise TooFewRecords(
                f"No one would be in this release of chain {self.chain}:"
                f" {chain_counts.waiting_persons} persons wait, fewer than a class needs.",
                hint="Run it again once there are more persons.",
            )
        # If each person has one row, rows are not counted separately.
        n_rows = chain_counts.persons if chain_counts.rows is None else chain_counts.rows
        self._require_rows(counts.rows, replace(expected, n_rows=n_rows))
        self.require_chain_counts(chain_counts)
        return self.verdict(counts, self._require_models(counts, expected))

    def require_chain_counts(self, chain_counts: ChainCounts) -> None:
        """Check the counts of a chain's persons, classes and histories after a release.

        Raises
        ------
        TraceTooSmall : fewer than k persons share a history.
        ChainModelBroken : a class violates a privacy model.
        RecountFailed : the written rows differ from the state of the chain.
        ChainExposed : too many persons have a history that fewer than k share.
        """
        # Counts that are 0 unless dbanon has an error. In messages, a cell is called a class.
        for n_wrong, description in (
            (
                chain_counts.mismatched_cells,
                "classes do not have exactly the rows of their persons",
            ),
            (
                chain_counts.rewritten_rows,
                "rows of held classes differ from those released before",
            ),
            (
                chain_counts.mismatched_combinations,
                "combinations of released values have more or fewer rows than their classes",
            ),
            (
                chain_counts.joined_combinations_below_k,
                "combinations of joined tables are shared by fewer persons than k",
            ),
        ):
            if n_wrong:
                raise RecountFailed(
                    f"{n_wrong} {description}; nothing was published.", hint=REPORT_IT
                )
        # The rarest of all histories and of all combinations of values in this release. With one
        # row per person, the recount of rows has checked the combinations already.
        fewest_persons = min(
            chain_counts.rarest_history_persons,
            _fewest_per_combination(chain_counts, default=self.k),
        )
        if self.only_measured:
            self.require_exposure_limit(chain_counts.exposed_persons, chain_counts.persons_so_far)
        elif fewest_persons < self.k:
            raise TraceTooSmall(
                f"A history over the releases of chain {self.chain} would be shared by"
                f" {pluralize(fewest_persons, 'person')}, fewer than"
                f" k = {self.k}; nothing was published.",
                hint=REPORT_IT,
            )
        if chain_counts.failing_cells:
            raise ChainModelBroken(
                f"{chain_counts.failing_cells} classes of chain {self.chain} would violate a"
                " privacy model; nothing was published.",
                hint=REPORT_IT,
            )

    def require_exposure_limit(self, n_exposed: int, n_persons: int) -> None:
        """Check that the fraction of exposed persons is at most ``max_exposed``.

        Parameters
        ----------
        n_exposed : the number of persons whose history is shared by fewer than k persons.
        n_persons : the number of persons with a history.

        Raises
        ------
        ChainExposed : the fraction is larger.
        """
        if self.max_exposed is None or n_exposed <= self.max_exposed * n_persons:
            return
        raise ChainExposed(
            f"With this release {n_exposed} of {n_persons} persons would have a joint"
            f" history that fewer than {self.k} share, more than the allowed share"
            f" {self.max_exposed:g}; nothing was published.",
            hint="Raise max_exposed, or release in a chain with the mode continue, where k"
            " persons share each history.",
        )

    def _require_models(
        self, counts: Counts, expected: ExpectedRelease
    ) -> tuple[CountedModel, ...]:
        """The privacy models, in their order, with the levels that all classes reach.

        For models that compare classes with the chain's first release, the levels come from the
        chain's state.
        """
        chain_counts = counts.chain_counts
        assert chain_counts is not None
        # By the index of such a model in ``models``.
        first_release_levels = {
            index: CountedModel(f"{self.models[index].describe()}{FIRST_RELEASE_SUFFIX}", level)
            for index, level in chain_counts.levels.items()
        }
        recounted_models = [
            model for index, model in enumerate(self.models) if index not in first_release_levels
        ]
        recounted_levels = iter(require_levels(recounted_models, expected.sensitive, counts))
        return tuple(
            first_release_levels[index] if index in first_release_levels else next(recounted_levels)
            for index in range(len(self.models))
        )

    def verdict(self, counts: Counts, counted_models: tuple[CountedModel, ...]) -> Verdict:
        """The verdict on counted persons, or on counted rows if each person has one row."""
        chain_counts = counts.chain_counts
        assert chain_counts is not None
        k = _fewest_per_combination(chain_counts, default=counts.rows.smallest)
        return Verdict(
            k=k,
            rarest_combination_size=k,
            models=counted_models,
            persons=chain_counts.persons,
            ledger_values={"entity": self.entity, "persons": chain_counts.persons}
            | ({"tables": self.n_tables} if self.n_tables > 1 else {}),
            unit_suffix=(
                f' (persons: distinct values of "{self.entity}", {chain_counts.persons} in all)'
            ),
        )


def _fewest_per_combination(chain_counts: ChainCounts, default: int) -> int:
    """The number of persons who share the rarest combination of released values.

    If each person has one row, this is not counted separately, and ``default`` is returned.
    """
    return (
        default
        if chain_counts.rarest_combination_persons is None
        else chain_counts.rarest_combination_persons
    )
