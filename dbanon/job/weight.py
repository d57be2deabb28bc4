"""The options about the design weight: the column that says for how many persons a row stands."""

from __future__ import annotations

from dbanon.data.option import Option
from dbanon.errors import InvalidParameter

# How design weights are released: as the mean of each class, as a whole number next to this mean,
# or as they are.
MEAN, ROUNDED, COPIED = WEIGHT_FORMS = ("mean", "rounded", "copied")
# The forms in which each class has one weight.
CLASS_FORMS = (MEAN, ROUNDED)
# The key of the record of a design weight in the arguments of a report.
WEIGHT_RECORD = "design_weight"
_DOCS_PAGE = "microdata.md#design-weights"
DESIGN_WEIGHT = Option(
    "The column with the design weight: for how many persons of the population a row stands. Means"
    " of classes are weighted by it. It is released as `weight_as` says.",
    expected="the name of one column",
    form="NAME",
    concerns_release=True,
    docs_page=_DOCS_PAGE,
)
WEIGHT_AS = Option(
    "How design weights are released. mean: each class gets the mean of its weights, and the sum"
    " stays the same. rounded: this mean, rounded up or down such that the sum changes little."
    " copied: as they are, which may identify persons. Default: mean.",
    choices=WEIGHT_FORMS,
    concerns_release=True,
    docs_page=_DOCS_PAGE,
)


def check_weight(
    design_weight: str | None,
    weight_as: str | None,
    *,
    has_unread_rules: bool,
    in_chain: bool,
    spills: bool,
    has_row_classes: bool,
) -> None:
    """Check the options of the design weight against those of the job.

    Parameters
    ----------
    design_weight, weight_as : the options of these names; None if they are not set.
    has_unread_rules : whether declared rules will name the column.
    in_chain : whether the job makes a release of a chain.
    spills : whether values are spilled to disk.
    has_row_classes : whether the rows of a class are released alike; False if each attribute has
        classes of its own.

    Raises
    ------
    InvalidParameter : the options contradict each other, or those of the job.
    """
    if design_weight is None:
        if weight_as is not None and not has_unread_rules:
            raise InvalidParameter(
                "weight_as was given, but no column is the design weight.",
                hint="Name the column: `design_weight`.",
            )
        return
    if in_chain:
        raise InvalidParameter(
            "A chain keeps the values of classes, and their design weights would change.",
            hint="Leave out `design_weight`, or release without a chain.",
        )
    if spills:
        raise InvalidParameter(
            "A job that spills values to disk cannot use a design weight: all weights would have to"
            " be in memory.",
            hint="Leave out `spill`, or `design_weight`.",
        )
    if not has_row_classes and weight_as != COPIED:
        raise InvalidParameter(
            "Where each attribute has its own classes, few rows are alike, so a mean weight would"
            " belong to few rows.",
            hint="Leave out `design_weight`.",
        )
