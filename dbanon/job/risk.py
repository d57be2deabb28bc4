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

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The options that name a single column.
_COLUMN_OPTIONS = ("weight", "household")


@dataclass(frozen=True)
class JobRisk:
    """What a job measures of the disclosure risk, and how much of it a release may have.

    Parameters
    ----------
    options : options of a measurement by name, as ``dbanon risk`` has them. Without
        ``quasi_identifiers``, those of the job are measured.
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

    def columns(self, quasi_identifiers: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that are measured, each once.

        Parameters
        ----------
        quasi_identifiers : those of the job.
        """
        options = self.measure_options(quasi_identifiers)
        names = [options[name] for name in _COLUMN_OPTIONS if options.get(name) is not None]
        return tuple(dict.fromkeys([*options["quasi_identifiers"], *names]))

    def measure_options(self, quasi_identifiers: Sequence[str]) -> KeywordArguments:
        """Return the options of the measurement.

        Parameters
        ----------
        quasi_identifiers : those of the job.
        """
        return {"quasi_identifiers": tuple(quasi_identifiers), **self.options}

    def with_path(self, map_path: Callable[[str], str]) -> JobRisk:
        """Copy it, and map its path."""
        return self if self.file is None else replace(self, file=map_path(self.file))
