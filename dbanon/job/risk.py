"""The disclosure risk that a job measures, of its source and of the release before it is shown.

The figures are for the controller of the data, not for readers of the release: see the extension
``survey``, which measures them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from dbanon.data.frozen import dataclass
from dbanon.data.types import KeywordArguments
from dbanon.errors import InvalidParameter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Endings of the names of private files. Pages are rendered, and need their extra.
FILE_ENDINGS = (".html", ".json", ".txt")
# The options that name a single column.
_COLUMN_OPTIONS = ("weight", "household")
# Options of a measurement that whoever compares a source with its release does not choose.
FIXED_OPTIONS = ("table", "key", "released", "population", "population_count", "memory_limit")


@dataclass(frozen=True)
class JobRisk:
    """What a job measures of the disclosure risk, and how much of it a release may have.

    Parameters
    ----------
    options : options of a measurement by name, as ``dbanon risk`` has them. Without
        ``quasi_identifiers``, those of the job and its strata are measured.
    file : the path of a new file for the figures that only its owner can read, with ``{release}``;
        None for no file.
    max_individual : the largest individual risk, or household risk, that a record of the release
        may have, 0 to 1; None for no limit.
    max_global : the largest mean of these risks over all records, 0 to 1; None for no limit.
    """

    options: Mapping[str, object] = field(default_factory=dict)
    file: str | None = None
    max_individual: float | None = None
    max_global: float | None = None

    def columns(self, class_columns: Sequence[str], design_weight: str | None) -> tuple[str, ...]:
        """Return the columns that are measured, each once.

        Parameters
        ----------
        class_columns : the quasi-identifiers and strata of the job.
        design_weight : its design weight; None without one.
        """
        options = self.measure_options(class_columns, design_weight)
        names = [options[name] for name in _COLUMN_OPTIONS if options.get(name) is not None]
        return tuple(dict.fromkeys([*options["quasi_identifiers"], *names]))

    def measure_options(
        self, class_columns: Sequence[str], design_weight: str | None
    ) -> KeywordArguments:
        """Return the options of the measurement.

        The design weight of the job counts unless a weight or a sampling fraction is named.

        Parameters
        ----------
        class_columns : the quasi-identifiers and strata of the job.
        design_weight : its design weight; None without one.
        """
        options: KeywordArguments = {
            "quasi_identifiers": tuple(class_columns),
            **self.options,
        }
        if design_weight is not None and not {"weight", "sampling_fraction"} & options.keys():
            options["weight"] = design_weight
        return options

    def with_path(self, map_path: Callable[[str], str]) -> JobRisk:
        """Copy it, and map its path."""
        return self if self.file is None else replace(self, file=map_path(self.file))


def require_rows_of_persons(n_rows: int, n_persons: int) -> None:
    """Check that each person has one row, since the risk is that of rows.

    Raises
    ------
    InvalidParameter : a person has several rows.
    """
    if n_persons < n_rows:
        raise InvalidParameter(
            "The disclosure risk is that of rows, and persons have several rows here: their risk"
            " would be larger.",
            hint="Leave out `risk`, or read a view with one row per person.",
        )
