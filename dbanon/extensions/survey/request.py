"""Requests to measure the disclosure risk of a sample, without database access."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from dbanon.data.option import Option, check_options
from dbanon.errors import InvalidParameter
from dbanon.extensions.survey.attacker_risk import DEFAULT_THRESHOLD
from dbanon.extensions.survey.suda import MAX_KEYS
from dbanon.job.job import KEY, MEMORY_LIMIT

DEFAULT_SUDA_SECONDS = 60.0
_COLUMN = "the name of one column"


@dataclass(frozen=True, kw_only=True)
class RiskRequest:
    """The options of a measurement of the disclosure risk of a sample.

    Raises
    ------
    InvalidParameter : an option has a value that is not allowed, or a column has two roles.
    """

    table: Annotated[
        str, Option("The table or view to read, as in app.people.", available_in_sql=False)
    ]
    quasi_identifiers: Annotated[
        tuple[str, ...],
        Option(
            "Columns that others may know about a person. Each value counts as a category, also"
            " each number."
        ),
    ]
    weight: Annotated[
        str | None,
        Option(
            "The column with the design weight: how many persons a record stands for.",
            expected=_COLUMN,
            form="NAME",
        ),
    ] = None
    household: Annotated[
        str | None,
        Option(
            "The column that identifies the household of a record. A record with NULL has none.",
            expected=_COLUMN,
            form="NAME",
        ),
    ] = None
    key: Annotated[tuple[str, ...], KEY] = ()
    population: Annotated[
        str | None,
        Option(
            "A table of all persons in the population, with the same quasi-identifiers, in the same"
            " database.",
            expected="the name of a table",
            form="TABLE",
        ),
    ] = None
    population_count: Annotated[
        str | None,
        Option(
            "The column of the population table with the number of persons that a row stands for."
            " Default: each row is a person.",
            expected=_COLUMN,
            form="NAME",
        ),
    ] = None
    released: Annotated[
        str | None,
        Option(
            "A release of the table, in the same database. It is measured like the table, so that"
            " figures before and after can be compared.",
            expected="the name of a table",
            form="TABLE",
        ),
    ] = None
    sampling_fraction: Annotated[
        float | None,
        Option(
            "The share of the population that is in the sample. Default: the number of records"
            " divided by the sum of `weight`.",
            minimum=0,
            excludes_minimum=True,
            maximum=1,
        ),
    ] = None
    threshold: Annotated[
        float,
        Option("The risk above which records are counted.", minimum=0, maximum=1),
    ] = DEFAULT_THRESHOLD
    missing: Annotated[
        str,
        Option(
            "category: NULL in a quasi-identifier is a value of its own. wildcard: it equals every"
            " value, as in sdcMicro.",
            choices=("category", "wildcard"),
        ),
    ] = "category"
    risk_method: Annotated[
        str,
        Option(
            "How the individual risk is computed: exact, or approximate for the figures of"
            " sdcMicro.",
            choices=("exact", "approximate"),
        ),
    ] = "exact"
    log_linear: Annotated[
        str,
        Option(
            "The log-linear model of sample uniques: main effects, or all two-way interactions.",
            choices=("main_effects", "two_way"),
        ),
    ] = "main_effects"
    suda: Annotated[
        bool,
        Option("Also search for the smallest sets of columns that single records out (SUDA2)."),
    ] = False
    suda_size: Annotated[
        int | None,
        Option(
            "The largest number of columns in such a set. Default: all. Implies `suda`.", minimum=1
        ),
    ] = None
    suda_seconds: Annotated[
        float,
        Option(
            "Seconds after which this search ends; what it has found is reported.",
            minimum=0,
            excludes_minimum=True,
        ),
    ] = DEFAULT_SUDA_SECONDS
    dis_fraction: Annotated[
        float,
        Option(
            "The sampling fraction in the experiment of DIS-SUDA scores.",
            minimum=0,
            excludes_minimum=True,
            maximum=1,
        ),
    ] = 0.01
    memory_limit: Annotated[int | None, MEMORY_LIMIT] = None

    def __post_init__(self) -> None:
        check_options(self)
        names = self.quasi_identifiers
        if not names:
            raise InvalidParameter(
                "No quasi-identifiers are named, so no record can be told apart.",
                hint='Name columns that others may know: `quasi_identifiers=["…"]`.',
            )
        others = [name for name in (self.weight, self.household) if name is not None]
        columns = [*names, *others]
        twice = [name for name in columns if columns.count(name) > 1]
        if twice:
            raise InvalidParameter(
                f'Column "{twice[0]}" is named twice.',
                hint="A column is a quasi-identifier, the `weight`, or the `household`: name it"
                " once.",
            )
        if self.weight is not None and self.weight in self.key:
            raise InvalidParameter(
                f'Column "{self.weight}" is the weight, and cannot identify rows, too.',
                hint="Leave it out of `key`.",
            )
        if self.population_count is not None and self.population is None:
            raise InvalidParameter(
                "There is no population table whose persons could be counted.",
                hint="Name it (`population`), or leave out `population_count`.",
            )
        if self.suda_size is not None:
            object.__setattr__(self, "suda", True)
            if self.suda_size > len(names):
                raise InvalidParameter(
                    f"suda_size must be at most the number of quasi-identifiers, {len(names)}.",
                    hint="Leave out `suda_size` to search sets of all sizes.",
                )
        if self.suda and len(names) > MAX_KEYS:
            raise InvalidParameter(
                f"SUDA takes at most {MAX_KEYS} quasi-identifiers, not {len(names)}.",
                hint="Name fewer `quasi_identifiers`: those that others are most likely to know.",
            )

    def for_population(self, table: str) -> RiskRequest:
        """Request the same quasi-identifiers of the population table."""
        return replace(
            self,
            table=table,
            weight=self.population_count,
            household=None,
            key=(),
            population=None,
            population_count=None,
            released=None,
        )

    def for_release(
        self,
        names: tuple[str, ...],
        weight: str | None,
        household: str | None,
    ) -> RiskRequest:
        """Request the same figures of the released table.

        Parameters
        ----------
        names : the released columns of the quasi-identifiers.
        weight, household : columns of the release; None if they were not kept.
        """
        return replace(
            self,
            table=str(self.released),
            quasi_identifiers=names,
            weight=weight,
            household=household,
            key=(),
            # Released values cannot be looked up among those of persons.
            population=None,
            population_count=None,
            released=None,
            suda_size=None if self.suda_size is None else min(self.suda_size, len(names)),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """All named columns, each once."""
        others = [name for name in (self.weight, self.household) if name is not None]
        return tuple(dict.fromkeys([*self.quasi_identifiers, *others, *self.key]))
