"""Sets of columns in ``also_k``: at least k rows must share each combination of their values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute, Kind
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.errors import InvalidParameter, UnsupportedType
from dbanon.measures import Model

_FORM_HINT = 'Write {"columns": ["age", "illness"], "k": 20}, or ["age", "illness"].'


@dataclass(frozen=True)
class ColumnSet:
    """Columns of a release; at least k rows or persons share each combination of their values.

    Parameters
    ----------
    columns : quasi-identifiers, strata, sensitive or kept columns, without duplicates.
    k : the minimum; None for the k of the release.

    Raises
    ------
    InvalidParameter : there is no column, one is named twice, or k is below 2.
    """

    columns: tuple[str, ...]
    k: int | None = None

    # The types of plain values that ``from_plain`` accepts, for the checks of options.
    plain_types: ClassVar[tuple[type, ...]] = (Mapping, list, tuple)

    def __post_init__(self) -> None:
        names: Collection[object] = self.columns
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise InvalidParameter("The columns of a set must be a list of names.", hint=_FORM_HINT)
        object.__setattr__(self, "columns", tuple(names))
        if not names or len(set(names)) < len(names):
            raise InvalidParameter(
                "A set of `also_k` must name at least one column, and each once.", hint=_FORM_HINT
            )
        k: object = self.k
        if k is not None and (not isinstance(k, int) or isinstance(k, bool) or k < 2):
            raise InvalidParameter(
                "The k of a set of columns must be a whole number, 2 or more.", hint=_FORM_HINT
            )

    @classmethod
    def from_plain(cls, plain: JsonMapping | Sequence[str]) -> ColumnSet:
        """Build the set from a mapping with the keys columns and k, or from a list of columns.

        Raises
        ------
        InvalidParameter : a key is missing or unknown, or a value has another type.
        """
        if not isinstance(plain, Mapping):
            return cls(tuple(plain))
        if not {"columns"} <= set(plain) <= {"columns", "k"}:
            raise InvalidParameter("A set of columns has the keys columns and k.", hint=_FORM_HINT)
        columns = plain["columns"]
        if not isinstance(columns, (list, tuple)):
            raise InvalidParameter("The columns of a set must be a list of names.", hint=_FORM_HINT)
        return cls(tuple(columns), plain.get("k"))

    def with_default_k(self, k: int) -> ColumnSet:
        """Return the set; a set without a k takes the k of the release, ``k``."""
        return ColumnSet(self.columns, int(k if self.k is None else self.k))

    def with_released_names(
        self, quasi_identifiers: Collection[str], released_names: Collection[str]
    ) -> ColumnSet:
        """The set with the names that its columns have in the release.

        A column that is released as a range becomes two columns, for the bounds. Its own name is
        then not among the released names.

        Parameters
        ----------
        quasi_identifiers : the quasi-identifiers of the job; only these can become ranges.
        released_names : the names of the released quasi-identifiers.
        """
        names: list[str] = []
        for name in self.columns:
            is_range = name in quasi_identifiers and name not in released_names
            names += (f"{name}_low", f"{name}_high") if is_range else (name,)
        return ColumnSet(tuple(names), self.k)

    def to_plain(self) -> JsonObject:
        """The set as plain values, for the ledger."""
        return {"columns": list(self.columns), "k": self.k}

    def describe(self, unit: str) -> str:
        """Describe the set, to follow the words "every combination" in a sentence without a verb.

        Example: "every combination of (age, city) by at least 20 rows, too", where the verb of the
        sentence before it, "is shared", is understood.

        Parameters
        ----------
        unit : what k counts, such as "rows".
        """
        return f"of ({', '.join(self.columns)}) by at least {self.k} {unit}"


def require_comparable_values(attribute: Attribute) -> None:
    """Check that all databases compare the values of a copied column in the same way.

    Raises
    ------
    UnsupportedType : databases do not all compare values of its type in the same way.
    """
    if attribute.kind is Kind.OTHER:
        raise UnsupportedType(
            f'Column "{attribute.name}"'
            f" of `also_k` is of type {attribute.sql_type}, whose values some databases cannot"
            " compare.",
            hint="Cast it to text or to a number in a view.",
        )


def require_column_sets(
    sets: Sequence[ColumnSet],
    models: Sequence[Model],
    released_columns: Collection[str],
    entity: str | None,
) -> None:
    """Check that sets name columns of the release, and are compatible with its privacy models.

    Parameters
    ----------
    released_columns : all except pseudonyms, whose values cannot be generalized.
    entity : the entity column, if k counts persons.

    Raises
    ------
    InvalidParameter : a set names another column, or a model does not allow sets.
    """
    # Sets make values coarser, so that classes may become equal to readers. The model must then
    # hold for the union of such classes, too.
    for model in models:
        if not model.is_union_closed(bool(entity)):
            raise InvalidParameter(
                f"With `also_k` classes may have the same released values, and {model.kind} may"
                " fail for two such classes together even if it holds for each.",
                hint="Choose another model, such as distinct_l, or leave out `also_k`.",
            )
    for column_set in sets:
        for name in column_set.columns:
            if name not in released_columns:
                raise InvalidParameter(
                    f'Column "{name}"'
                    " of `also_k` is not a quasi-identifier, stratum, sensitive or kept column of"
                    " the release.",
                    hint="Name only such columns in `also_k`.",
                )
