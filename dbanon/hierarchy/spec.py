"""How a hierarchy is named, the same through every door.

A JSON object with one key that says what kind it is, and others for its parameters: a table, a
stored hierarchy, a tree written out, or a builder. Where text is easier, ``table:ref.tree`` and
``name:education``; a client may also name a file, or give a ``Hierarchy``.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from dbanon.data.frozen import dataclass
from dbanon.data.microdata import Microdata
from dbanon.errors import HierarchyBroken, InvalidParameter, nearest_names
from dbanon.hierarchy import builders
from dbanon.hierarchy.edges import Pulse, no_pulse
from dbanon.hierarchy.leaves import column_texts
from dbanon.hierarchy.tree import Hierarchy

TABLE, NAME, ENUM = "table", "name", "enum"
IN_DATABASES = (TABLE, NAME, ENUM)
_IN_TEXT = (TABLE, NAME)


@dataclass(frozen=True)
class HierarchySpec:
    """A hierarchy that is still to be read from a database, or made from a column's values.

    Parameters
    ----------
    kind : a name in ``KINDS``.
    text : the whole specification as JSON.
    """

    kind: str
    text: str

    @property
    def parameters(self) -> dict[str, Any]:
        """The specification as it was given."""
        found: dict[str, Any] = json.loads(self.text)
        return found

    @property
    def value(self) -> Any:
        """What stands behind the key that says the kind."""
        return self.parameters[self.kind]


Given: TypeAlias = Hierarchy | HierarchySpec | Mapping[str, Any] | str | Path


@dataclass(frozen=True)
class _Key:
    """What the value of a key must be."""

    fits: Callable[[Any], bool]
    expected: str


@dataclass(frozen=True)
class _Kind:
    key: _Key
    options: Mapping[str, _Key]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (list, tuple)) and bool(value) and all(map(fits, value))


_FANOUT = _Key(lambda value: _is_whole(value) and value >= 2, "a whole number, 2 or more")
_LABELS = _Key(
    _list_of(lambda value: isinstance(value, str) or _is_number(value)), "a list of texts"
)
_TRUE_OR_LABELS = _Key(
    lambda value: value is True or _LABELS.fits(value),
    "true for the column's own order, or a list of its values in order",
)

KINDS: dict[str, _Kind] = {
    TABLE: _Kind(_Key(_is_text, "the name of a table, as in ref.education_tree"), {}),
    NAME: _Kind(_Key(_is_text, "the name of a stored hierarchy"), {}),
    "tree": _Kind(
        _Key(
            lambda value: isinstance(value, (dict, list, tuple)),
            "an object of objects and lists, or a list of [child, parent]",
        ),
        {},
    ),
    "levels": _Kind(
        _Key(_list_of(_LABELS.fits), 'a list of rows ["leaf", "level 1", …, "root"]'), {}
    ),
    "intervals": _Kind(
        _Key(_list_of(_is_number), "a list of widths, each a multiple of the one before"),
        {"origin": _Key(_is_number, "a number: a border of the grid")},
    ),
    "dates": _Kind(
        _Key(_list_of(_is_text), "a list of " + ", ".join(builders.DATE_STEPS)),
        {},
    ),
    "mask": _Kind(
        _Key(
            lambda value: value is True or _list_of(_is_whole)(value),
            "true, or a list of how many leading characters stay, falling",
        ),
        {"character": _Key(lambda value: _is_text(value) and len(value) == 1, "one character")},
    ),
    "ordered": _Kind(_TRUE_OR_LABELS, {"fanout": _FANOUT}),
    "grouped": _Kind(
        _Key(_list_of(_is_whole), "a list of sizes of groups, in order"),
        {"order": _TRUE_OR_LABELS},
    ),
    ENUM: _Kind(_Key(lambda value: value is True, "true"), {"fanout": _FANOUT}),
}


def parse(given: Given, *, files: bool) -> Hierarchy | HierarchySpec:
    """The hierarchy itself where nothing but the specification is needed, else what names it.

    Parameters
    ----------
    files : True where text may be the path of a file; never inside a server.

    Raises
    ------
    InvalidParameter : it is no specification, or a file cannot be read.
    HierarchyBroken : it is no tree.
    """
    if isinstance(given, (Hierarchy, HierarchySpec)):
        return given
    if isinstance(given, str):
        kind, colon, rest = given.partition(":")
        if colon and kind in _IN_TEXT:
            return parse({kind: rest}, files=files)
        if given.lstrip().startswith("{"):
            return parse(_json(given), files=files)
    if isinstance(given, (str, Path)) and files:
        return _readable(lambda: Hierarchy.load(given), "Name a CSV or JSON file, in UTF-8.")
    if not isinstance(given, Mapping):
        raise InvalidParameter("A hierarchy must be a JSON object.", hint=_known_kinds())
    return _parse_object(given)


def parse_all(
    given: Mapping[str, Given] | None, *, files: bool
) -> dict[str, Hierarchy | HierarchySpec]:
    """The hierarchies by column; raises as ``parse``, naming the column."""
    if not isinstance(given or {}, Mapping):
        raise InvalidParameter("hierarchies must be an object: a hierarchy by column.")
    found = {}
    for column, one in (given or {}).items():
        with _about(column):
            found[column] = parse(one, files=files)
    return found


def built(
    given: Mapping[str, Hierarchy | HierarchySpec], microdata: Microdata, pulse: Pulse = no_pulse
) -> dict[str, Hierarchy]:
    """The hierarchies of quasi-identifiers, those of builders made from the columns' values.

    Raises
    ------
    InvalidParameter : the builder does not take the values, a hierarchy is one of a database, or
        a name is no quasi-identifier.
    """
    attributes = {attribute.name: attribute for attribute in microdata.attributes}
    found = {}
    for column, one in given.items():
        if column not in attributes:
            raise InvalidParameter(
                f'The hierarchy of "{column}" names no quasi-identifier.',
                hint="Give hierarchies to quasi-identifiers only.",
            )
        order = attributes[column].order
        if isinstance(one, HierarchySpec) and one.kind == ENUM and order:
            found[column] = enum_tree(one, order)
        elif isinstance(one, HierarchySpec):
            found[column] = build(one, column_texts(microdata, attributes[column]), column, pulse)
        else:
            found[column] = one
    return found


def require_own_ranges(given: Mapping[str, Hierarchy | HierarchySpec], local_range: bool) -> None:
    """Check that labels that name the column's values are wanted: they may be those of one record.

    Raises
    ------
    InvalidParameter : a builder makes such labels, and own ranges are not what is released.
    """
    for column, one in given.items():
        if isinstance(one, HierarchySpec) and one.kind in _ORDERS and not local_range:
            raise InvalidParameter(
                f'Column "{column}": labels of "{one.kind}" in the column\'s own order name values'
                " of its records, also of those withheld.",
                hint="List the values in order, use a builder whose labels are fixed (intervals,"
                " mask, dates), or release own ranges (`local_range=true`).",
            )


def build(
    spec: HierarchySpec, values: Sequence[str], column: str, pulse: Pulse = no_pulse
) -> Hierarchy:
    """The hierarchy that a builder makes from the values of a column, in their order.

    ``pulse`` is called now and then: what it raises ends the making.

    Raises
    ------
    InvalidParameter : the builder does not take the values, or a database is needed.
    """
    if spec.kind in IN_DATABASES:
        raise InvalidParameter(
            f'The hierarchy of "{column}" is read from a database, but no database is given here.',
            hint="Load it first, and give it as a Hierarchy.",
        )
    with _about(column):
        return _BUILDERS[spec.kind](spec.parameters, values, pulse)


def enum_tree(spec: HierarchySpec, labels: Sequence[str]) -> Hierarchy:
    """The hierarchy of an enumerated type, whose labels are given in the type's order."""
    return builders.ordered(labels, spec.parameters.get("fanout", 2))


# Kinds whose steps can be tried before the values are known, with a value that fits all steps.
_STEPPED = {"intervals": "0", "dates": "2000-01-01", "mask": "-"}
# Where the order of values may be listed.
_ORDERS = {"ordered": "ordered", "grouped": "order"}

_BUILDERS: dict[str, Callable[[Mapping[str, Any], Sequence[str], Pulse], Hierarchy]] = {
    "intervals": lambda given, values, pulse: builders.intervals(
        values, given["intervals"], given.get("origin", 0), pulse=pulse
    ),
    "dates": lambda given, values, pulse: builders.dates(values, given["dates"], pulse=pulse),
    "mask": lambda given, values, pulse: builders.prefixes(
        values,
        None if given["mask"] is True else given["mask"],
        given.get("character", "*"),
        pulse=pulse,
    ),
    "ordered": lambda given, values, pulse: builders.ordered(
        _in_order(given["ordered"], values), given.get("fanout", 2), pulse=pulse
    ),
    "grouped": lambda given, values, pulse: builders.grouped(
        _in_order(given.get("order", True), values), given["grouped"], pulse=pulse
    ),
}


def _in_order(order: Any, values: Sequence[str]) -> Sequence[str]:
    return values if order is True else list(map(str, order))


def _parse_object(given: Mapping[str, Any]) -> Hierarchy | HierarchySpec:
    kinds = [key for key in given if key in KINDS]
    if len(kinds) != 1:
        unknown = [str(key) for key in given if key not in KINDS]
        near = nearest_names(unknown[0], KINDS) if unknown and not kinds else None
        raise InvalidParameter(
            "A hierarchy must have one key that says its kind.",
            hint=" ".join(filter(None, (near, _known_kinds()))),
        )
    [name] = kinds
    kind = KINDS[name]
    keys = {name: kind.key, **kind.options}
    for key, value in given.items():
        if key not in keys:
            raise InvalidParameter(
                f'A hierarchy of kind "{name}" has no such key.',
                hint="Known keys: " + ", ".join(keys) + ".",
            )
        if not keys[key].fits(value):
            raise InvalidParameter(f'"{key}" must be {keys[key].expected}.')
    if name == "tree":
        return _readable(lambda: Hierarchy.from_json(_labels(given["tree"])), _tree_hint())
    if name == "levels":
        return Hierarchy.from_levels(given["levels"])
    if isinstance(given.get(_ORDERS.get(name, "")), (list, tuple)):
        return _BUILDERS[name](given, (), no_pulse)
    if name in _STEPPED:
        # Its steps are wrong or right whatever the values are.
        probe = _STEPPED[name]
        _BUILDERS[name](given, ("_" if given.get("character") == probe else probe,), no_pulse)
    return HierarchySpec(name, json.dumps(dict(given), sort_keys=True))


def _labels(tree: Any) -> Any:
    """The tree, with numbers as text; a TypeError where something else stands for a label."""
    if isinstance(tree, (list, tuple)):
        if not all(isinstance(row, (list, tuple)) for row in tree):
            raise TypeError
        return [(_label(child), None if up is None else _label(up)) for child, up in tree]
    return {label: _below(below) for label, below in tree.items()}


def _below(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {label: _below(below) for label, below in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [_label(leaf) for leaf in tree]
    raise TypeError


def _label(given: Any) -> str:
    if isinstance(given, str) or _is_number(given):
        return str(given)
    raise TypeError


def _readable(load: Callable[[], Hierarchy], hint: str) -> Hierarchy:
    try:
        return load()
    except FileNotFoundError:
        raise InvalidParameter(
            "The file of a hierarchy does not exist.",
            hint="A stored hierarchy is written name:NAME, a table of the database table:NAME.",
        ) from None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, csv.Error):
        raise InvalidParameter("A hierarchy cannot be read.", hint=hint) from None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidParameter("A hierarchy is not valid JSON.", hint=_known_kinds()) from None


def _known_kinds() -> str:
    return "Known kinds: " + ", ".join(KINDS) + '; as in {"table": "ref.education_tree"}.'


def _tree_hint() -> str:
    return 'Write {"root": {"branch": ["leaf", …]}}, or a list of ["child", "parent"].'


@contextmanager
def _about(column: str) -> Iterator[None]:
    """Say which column's hierarchy an error is about."""
    try:
        yield
    except (InvalidParameter, HierarchyBroken) as error:
        error.message = f'Column "{column}": {error.message}'
        raise
