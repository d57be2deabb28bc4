"""Groups: values of a column that are released under one name, such as the regions of the North.

Coding replaces each value by the name of its group, before classes are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar

from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonObject
from dbanon.errors import InvalidParameter

# In place of a list: the group takes all values that no other group lists. Also the label of
# several groups together, as of the root of a hierarchy.
ALL_OTHERS = "*"
_FORM_HINT = 'Write {"North": ["N1", "N2"], "South": ["S1"], "Other": "*"}: `recode`.'


@dataclass(frozen=True)
class Groups:
    """The groups of a column's values.

    Parameters
    ----------
    values_by_group : by name of a group, the texts of its values, or ``ALL_OTHERS``, which one
        group at most has.

    Raises
    ------
    InvalidParameter : a name is not allowed, a group is empty, or a value is listed twice.
    """

    values_by_group: Mapping[str, tuple[str, ...] | str]

    # The types of plain values that ``from_plain`` accepts, for the checks of options.
    plain_types: ClassVar[tuple[type, ...]] = (Mapping,)

    def __post_init__(self) -> None:
        groups = self.values_by_group
        names: Iterable[object] = groups
        if not groups or not all(isinstance(name, str) and name.strip() for name in names):
            raise InvalidParameter("The names of groups must be texts.", hint=_FORM_HINT)
        if ALL_OTHERS in groups:
            raise InvalidParameter(
                f'A group cannot be named "{ALL_OTHERS}", which stands for any value in a release.',
                hint=_FORM_HINT,
            )
        lists = [values for values in groups.values() if values != ALL_OTHERS]
        if len(groups) - len(lists) > 1:
            raise InvalidParameter(
                f'Only one group can have "{ALL_OTHERS}": all values that no other group lists.',
                hint=_FORM_HINT,
            )
        listed_values = [value for values in lists for value in values]
        if not all(lists):
            raise InvalidParameter("A group has no value.", hint=_FORM_HINT)
        if n_repeated := len(listed_values) - len(set(listed_values)):
            raise InvalidParameter(
                f"Groups list {n_repeated} of {len(listed_values)} values again.",
                hint="List each value once: `recode`.",
            )

    @classmethod
    def from_plain(cls, plain: Mapping[object, object]) -> Groups:
        """Build the groups from a mapping of names to lists of values, or to ``ALL_OTHERS``.

        Raises
        ------
        InvalidParameter : the mapping has another form.
        """
        groups: dict[str, tuple[str, ...] | str] = {}
        for name, values in plain.items():
            if isinstance(values, str):
                if values != ALL_OTHERS:
                    raise InvalidParameter(
                        f'A group has a list of values, or "{ALL_OTHERS}" for all others.',
                        hint=_FORM_HINT,
                    )
                groups[_require_name(name)] = ALL_OTHERS
                continue
            groups[_require_name(name)] = _read_values(values)
        return cls(MappingProxyType(groups))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the groups, which are the released values."""
        return tuple(self.values_by_group)

    def is_label(self, text: str) -> bool:
        """Whether a text is the name of a group, or the label of several groups together."""
        return text == ALL_OTHERS or text in self.values_by_group

    def group_of(self, text: str, *, is_number: bool) -> str | None:
        """Return the name of a value's group; None if it is in no group.

        Parameters
        ----------
        text : the text of the value.
        is_number : True for a column of numbers. Then a text also matches those of equal numbers.
        """
        group = self._group_of_text.get(text)
        if group is None and is_number:
            group = self._group_of_number.get(_to_number(text))
        return group or self._group_of_others

    def to_plain(self) -> JsonObject:
        """The groups as plain values, as users write them."""
        return {
            name: values if isinstance(values, str) else list(values)
            for name, values in self.values_by_group.items()
        }

    def describe(self) -> JsonObject:
        """Describe the groups without their values, for the ledger."""
        return {
            name: values if isinstance(values, str) else {"values": len(values)}
            for name, values in self.values_by_group.items()
        }

    @cached_property
    def _group_of_others(self) -> str | None:
        """The group of all values that are not listed; None if there is none."""
        rest_groups = [
            name for name, values in self.values_by_group.items() if values == ALL_OTHERS
        ]
        return rest_groups[0] if rest_groups else None

    @cached_property
    def _group_of_text(self) -> dict[str, str]:
        """The group of each listed value."""
        return {
            value: name
            for name, values in self.values_by_group.items()
            if values != ALL_OTHERS
            for value in values
        }

    @cached_property
    def _group_of_number(self) -> dict[Decimal | None, str]:
        """The group of each listed number."""
        numbers = {_to_number(text): name for text, name in self._group_of_text.items()}
        return {number: name for number, name in numbers.items() if number is not None}


def _require_name(name: object) -> str:
    """Return a name of a group; raises InvalidParameter if it is no text."""
    if not isinstance(name, str):
        raise InvalidParameter("The names of groups must be texts.", hint=_FORM_HINT)
    return name


def _read_values(values: object) -> tuple[str, ...]:
    """Return the texts of a group's values; raises InvalidParameter for other types."""
    if isinstance(values, (bytes, Mapping)) or not isinstance(values, Iterable):
        raise InvalidParameter(
            f'A group has a list of values, or "{ALL_OTHERS}" for all others.', hint=_FORM_HINT
        )
    items = list(values)
    if not all(isinstance(item, (str, int)) and not isinstance(item, bool) for item in items):
        raise InvalidParameter(
            "The values of a group must be texts or whole numbers.", hint=_FORM_HINT
        )
    return tuple(map(str, items))


def _to_number(text: str) -> Decimal | None:
    """Convert the text of a number; None for other texts."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
