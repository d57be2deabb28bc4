"""Sets of columns whose combinations of values k rows share, too: beside all quasi-identifiers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, UnsupportedType
from dbanon.measures import Model

_AS_IN = 'As in {"columns": ["age", "illness"], "k": 20}, or ["age", "illness"].'


@dataclass(frozen=True)
class ColumnSet:
    """Columns of a release; every combination of their values is shared by k rows, or persons.

    Parameters
    ----------
    columns : quasi-identifiers, strata, sensitive or kept columns, each once.
    k : the fewest; None for the k of the release.

    Raises
    ------
    InvalidParameter : there is no column, one is named twice, or k is below 2.
    """

    columns: tuple[str, ...]
    k: int | None = None

    plain_types: ClassVar[tuple[type, ...]] = (Mapping, list, tuple)

    def __post_init__(self) -> None:
        names: Any = self.columns
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise InvalidParameter("The columns of a set must be a list of names.", hint=_AS_IN)
        object.__setattr__(self, "columns", tuple(names))
        if not names or len(set(names)) < len(names):
            raise InvalidParameter(
                "A set of `also_k` must name at least one column, and each once.", hint=_AS_IN
            )
        k: Any = self.k
        if k is not None and (not isinstance(k, int) or isinstance(k, bool) or k < 2):
            raise InvalidParameter(
                "The k of a set of columns must be a whole number, 2 or more.", hint=_AS_IN
            )

    @classmethod
    def of_plain(cls, given: Mapping[str, Any] | Sequence[str]) -> ColumnSet:
        """The set of an object with its columns and k, or of a list of columns.

        Raises
        ------
        InvalidParameter : a key is missing or unknown, or a value has another type.
        """
        if not isinstance(given, Mapping):
            return cls(tuple(given))
        if not {"columns"} <= set(given) <= {"columns", "k"}:
            raise InvalidParameter("A set of columns has the keys columns and k.", hint=_AS_IN)
        columns = given["columns"]
        if not isinstance(columns, (list, tuple)):
            raise InvalidParameter("The columns of a set must be a list of names.", hint=_AS_IN)
        return cls(tuple(columns), given.get("k"))

    def of_release(self, k: int) -> ColumnSet:
        """The set with a k of its own, that of the release where it has none."""
        return ColumnSet(self.columns, int(k if self.k is None else self.k))

    def released(self, own: Collection[str], columns: Collection[str]) -> ColumnSet:
        """The set by the names that the release has: of a range its two bounds.

        Parameters
        ----------
        own : the quasi-identifiers of the job. A copied column is never a range, even where others
            are named as its bounds would be.
        columns : the released quasi-identifiers.
        """
        found: list[str] = []
        for name in self.columns:
            ranged = name in own and name not in columns
            found += (f"{name}_low", f"{name}_high") if ranged else (name,)
        return ColumnSet(tuple(found), self.k)

    def plain(self) -> dict[str, Any]:
        """The set as plain values, for the ledger."""
        return {"columns": list(self.columns), "k": self.k}

    def describe(self, what: str) -> str:
        """The set in words; ``what`` is counted."""
        return f"of ({', '.join(self.columns)}) by at least {self.k} {what}"


def require_equality(attribute: Attribute) -> None:
    """Check that values of a copied column can be told apart in the same way everywhere.

    Raises
    ------
    UnsupportedType : its type has no equality that all databases have.
    """
    if attribute.kind is Kind.OTHER:
        raise UnsupportedType(
            f'Column "{attribute.name}" of `also_k` is of type {attribute.sql_type}, whose values'
            " not all databases compare.",
            hint="Cast it to text or to a number in a view.",
        )


def require_sets(
    sets: Sequence[ColumnSet], models: Sequence[Model], named: Collection[str], entity: str | None
) -> None:
    """Check that sets are of columns that the release holds, and fit to its privacy models.

    Parameters
    ----------
    named : the columns that it holds, pseudonyms excepted: a value that is made anew for the
        release has nothing that could be brought together.

    Raises
    ------
    InvalidParameter : they are not, or do not.
    """
    for model in models if sets else ():
        if not model.holds_together(bool(entity)):
            raise InvalidParameter(
                f"With `also_k` classes may be released alike, and {model.kind} need not hold of"
                " two classes that keep to it one by one.",
                hint="Ask for another model, or leave out `also_k`.",
            )
    for one in sets:
        for name in one.columns:
            if name not in named:
                raise InvalidParameter(
                    f'Column "{name}" of `also_k` is no quasi-identifier, stratum, sensitive or'
                    " kept column of the release.",
                    hint="Name only such columns in `also_k`.",
                )
