"""Read the figures of the disclosure risk before and after from the JSON that dbanon wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from dbanon.data.types import JsonMapping
from dbanon.errors import InvalidParameter
from dbanon.extensions.survey.attacker_risk import AttackerRisk
from dbanon.extensions.survey.individual_risk import GlobalRisk
from dbanon.extensions.survey.population_uniqueness import PopulationUniques
from dbanon.extensions.survey.risk_comparison import RiskComparison
from dbanon.extensions.survey.sample_risk import (
    RISK_BORDERS,
    HouseholdRisk,
    LogLinearRisk,
    PopulationMatch,
    SampleRisk,
    SudaSummary,
)

_Figures = TypeVar("_Figures")


def read_comparison(file: Path) -> tuple[RiskComparison, str | None]:
    """Read the figures of a file, and the id of the release if a job wrote it.

    Raises
    ------
    InvalidParameter : the file cannot be read, or has other contents.
    """
    # Renders pages, which other figures do not need.
    from dbanon.extensions.survey.risk_page import describe_section

    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        comparison = RiskComparison(
            _parse_sample(document["before"]),
            _parse_sample(document["after"]),
            tuple(map(str, document["notes"])),
        )
        # Fails if a figure is no number, or a note is empty.
        describe_section(comparison.view())
        release_id = document.get("release_id")
    except (
        OSError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        # JSON that is nested too deeply.
        RecursionError,
    ):
        raise InvalidParameter(
            f"{file} has no figures of the disclosure risk before and after.",
            hint="Name the .json file that a job wrote for its key risk, or the JSON that dbanon"
            " risk prints of a table and its release.",
        ) from None
    return comparison, None if release_id is None else str(release_id)


def _parse_sample(document: JsonMapping) -> SampleRisk:
    """Parse what ``SampleRisk.to_dict`` returned."""
    individual = document["individual"]
    uniqueness, suda = document["uniqueness"], document["suda"]
    if uniqueness is not None:
        uniqueness = PopulationUniques(
            document["population_size"], uniqueness["estimates"], uniqueness["selected"]
        )
    if suda is not None:
        sizes = {int(size): count for size, count in suda["sets_by_size"].items()}
        suda = SudaSummary(**{**suda, "sets_by_size": sizes})
    counts = {entry["up_to"]: entry["records"] for entry in individual["distribution"]}
    return SampleRisk(
        **{
            name: document[name]
            for name in (
                "source",
                "records",
                "basis",
                "missing",
                "incomplete",
                "population_size",
                "sample_uniques",
                "classes",
                "marketer",
            )
        },
        quasi_identifiers=tuple(document["quasi_identifiers"]),
        total=GlobalRisk(individual["expected_reidentifications"], individual["rate"]),
        highest=individual["highest"],
        distribution={border: counts[border] for border in RISK_BORDERS},
        prosecutor=AttackerRisk(**document["prosecutor"]),
        journalist=AttackerRisk(**document["journalist"]),
        household=_parse_part(HouseholdRisk, document["household"]),
        uniqueness=uniqueness,
        log_linear=_parse_part(LogLinearRisk, document["log_linear"]),
        population=_parse_part(PopulationMatch, document["population"]),
        suda=suda,
        notes=tuple(map(str, document["notes"])),
    )


def _parse_part(kind: type[_Figures], document: Mapping[str, object] | None) -> _Figures | None:
    """Parse a part of the figures; None if it was not measured."""
    return None if document is None else kind(**document)
