"""Specifications of hierarchies, shared by all interfaces.

A specification is a JSON object. One key gives its kind (a table, a stored hierarchy, an explicit
tree, or a builder); others give parameters. ``table:ref.tree`` and ``name:education`` are short
forms as text. Clients may also pass the path of a file, or a ``Hierarchy``.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from dbanon.data.frozen import dataclass
from dbanon.data.microdata import Microdata
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.errors import HierarchyBroken, InvalidParameter, nearest_names
from dbanon.hierarchy.edges import DATE_STEPS, Pulse, ignore_pulses
from dbanon.hierarchy.leaves import list_column_texts
from dbanon.hierarchy.tree import Hierarchy

# Kinds of hierarchies that are read from a database: from a table of labels, by the name under
# which it was stored, or from the labels of the column's enumerated type.
TABLE, NAME, ENUM = "table", "name", "enum"
DATABASE_KINDS = (TABLE, NAME, ENUM)
_SHORT_FORM_KINDS = (TABLE, NAME)


@dataclass(frozen=True)
class HierarchySpec:
    """A hierarchy that has yet to be read from a database or built from a column's values.

    Parameters
    ----------
    kind : a name in ``KINDS``.
    text : the specification as JSON.
    """

    kind: str
    text: str

    @property
    def parameters(self) -> JsonObject:
        """The specification as a dictionary."""
        parameters: JsonObject = json.loads(self.text)
        return parameters

    @property
    def value(self) -> Any:
        """The value of the key that gives the kind."""
        return self.parameters[self.kind]


HierarchySource: TypeAlias = Hierarchy | HierarchySpec | JsonMapping | str | Path


@dataclass(frozen=True)
class _KeyRule:
    """The values that a key accepts.

    Parameters
    ----------
    is_valid : returns True if a value is accepted.
    expected : a description of the accepted values, for errors.
    """

    is_valid: Callable[[object], bool]
    expected: str


@dataclass(frozen=True)
class _KindRule:
    """The keys of a kind of specification.

    Parameters
    ----------
    key : the accepted values of the key that gives the kind.
    options : the accepted values of further keys, by key.
    """

    key: _KeyRule
    options: Mapping[str, _KeyRule]


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value)


def _make_list_check(is_valid: Callable[[object], bool]) -> Callable[[object], bool]:
    """Return a check that a value is a list, not empty, of items that pass another check."""
    return lambda value: (
        isinstance(value, (list, tuple)) and bool(value) and all(map(is_valid, value))
    )


_FANOUT = _KeyRule(lambda value: _is_integer(value) and value >= 2, "a whole number, 2 or more")
_LABELS = _KeyRule(
    _make_list_check(lambda value: isinstance(value, str) or _is_number(value)), "a list of texts"
)
_TRUE_OR_LABELS = _KeyRule(
    lambda value: value is True or _LABELS.is_valid(value),
    "true for the column's own order, or a list of its values in order",
)

KINDS: dict[str, _KindRule] = {
    TABLE: _KindRule(_KeyRule(_is_text, "the name of a table, as in ref.education_tree"), {}),
    NAME: _KindRule(_KeyRule(_is_text, "the name of a stored hierarchy"), {}),
    "tree": _KindRule(
        _KeyRule(
            lambda value: isinstance(value, (dict, list, tuple)),
            "an object of objects and lists, or a list of [child, parent]",
        ),
        {},
    ),
    "levels": _KindRule(
        _KeyRule(
            _make_list_check(_LABELS.is_valid), 'a list of rows ["leaf", "level 1", …, "root"]'
        ),
        {},
    ),
    "intervals": _KindRule(
        _KeyRule(
            _make_list_check(_is_number), "a list of widths, each a multiple of the one before"
        ),
        {"origin": _KeyRule(_is_number, "a number: a border of the grid")},
    ),
    "dates": _KindRule(
        _KeyRule(_make_list_check(_is_text), "a list of " + ", ".join(DATE_STEPS)),
        {},
    ),
    "mask": _KindRule(
        _KeyRule(
            lambda value: value is True or _make_list_check(_is_integer)(value),
            "true, or a list of numbers of leading characters that stay, decreasing",
        ),
        {"character": _KeyRule(lambda value: _is_text(value) and len(value) == 1, "one character")},
    ),
    "ordered": _KindRule(_TRUE_OR_LABELS, {"fanout": _FANOUT}),
    "grouped": _KindRule(
        _KeyRule(_make_list_check(_is_integer), "a list of sizes of groups, in order"),
        {"order": _TRUE_OR_LABELS},
    ),
    ENUM: _KindRule(_KeyRule(lambda value: value is True, "true"), {"fanout": _FANOUT}),
}


def parse(source: HierarchySource, *, files: bool) -> Hierarchy | HierarchySpec:
    """Parse a specification.

    Returns the hierarchy if it is written out, and a validated ``HierarchySpec`` otherwise.

    Parameters
    ----------
    files : True if text may be the path of a file, which is never allowed on a server.

    Raises
    ------
    InvalidParameter : the specification is invalid, or a file cannot be read.
    HierarchyBroken : the content is not a tree.
    """
    if isinstance(source, (Hierarchy, HierarchySpec)):
        return source
    if isinstance(source, str):
        kind, colon, name = source.partition(":")
        if colon and kind in _SHORT_FORM_KINDS:
            return parse({kind: name}, files=files)
        if source.lstrip().startswith("{"):
            return parse(_load_json(source), files=files)
    if isinstance(source, (str, Path)) and files:
        is_json = Path(source).suffix.lower() == ".json"
        hint = _describe_tree_format() if is_json else "Name a CSV or JSON file, in UTF-8."
        return _load_or_refuse(lambda: Hierarchy.load(source), hint)
    if not isinstance(source, Mapping):
        raise InvalidParameter("A hierarchy must be a JSON object.", hint=_list_known_kinds())
    return _parse_object(source)


def parse_all(
    sources: Mapping[str, HierarchySource] | None, *, files: bool
) -> dict[str, Hierarchy | HierarchySpec]:
    """Parse the hierarchies of columns (``parse``), by name; errors name the column.

    Parameters
    ----------
    files : True if text may be the path of a file.
    """
    if not isinstance(sources or {}, Mapping):
        raise InvalidParameter("hierarchies must be an object: a hierarchy by column.")
    parsed = {}
    for column, source in (sources or {}).items():
        with _prefix_errors(column):
            parsed[column] = parse(source, files=files)
    return parsed


def build_all(
    hierarchies: Mapping[str, Hierarchy | HierarchySpec],
    microdata: Microdata,
    pulse: Pulse = ignore_pulses,
) -> dict[str, Hierarchy]:
    """Build the hierarchies of quasi-identifiers, applying builders to the columns' values.

    Parameters
    ----------
    hierarchies : by column, the hierarchy or its specification.
    pulse : called regularly; an exception from it cancels the work.

    Raises
    ------
    InvalidParameter : a builder rejects the values, a hierarchy must be read from a database, or a
        name is not a quasi-identifier.
    """
    attributes = {attribute.name: attribute for attribute in microdata.attributes}
    trees = {}
    for column, hierarchy in hierarchies.items():
        if column not in attributes:
            raise InvalidParameter(
                f'The hierarchy of "{column}" does not name a quasi-identifier.',
                hint="Give hierarchies to quasi-identifiers only.",
            )
        order = attributes[column].order
        # The order of an enumerated type consists of its labels, unless the caller states another.
        if isinstance(hierarchy, HierarchySpec) and hierarchy.kind == ENUM and order:
            trees[column] = build_enum_hierarchy(hierarchy, order)
        elif isinstance(hierarchy, HierarchySpec):
            trees[column] = build(
                hierarchy, list_column_texts(microdata, attributes[column]), column, pulse
            )
        else:
            trees[column] = hierarchy
    return trees


def refuse_labels_with_values(
    hierarchies: Mapping[str, Hierarchy | HierarchySpec], local_range: bool
) -> None:
    """Refuse builders whose labels contain column values, unless ``local_range`` allows them.

    A value in a label may belong to a single record.

    Parameters
    ----------
    hierarchies : by column, the hierarchy or its specification.
    local_range : True if labels may contain column values.

    Raises
    ------
    InvalidParameter : a builder makes such labels, and ``local_range`` is False.
    """
    for column, hierarchy in hierarchies.items():
        # A listed order would have been built by ``parse``, so this one is the column's own order.
        if (
            isinstance(hierarchy, HierarchySpec)
            and hierarchy.kind in _ORDER_KEYS
            and not local_range
        ):
            raise InvalidParameter(
                f'Column "{column}": labels of "{hierarchy.kind}" in the column\'s own order name'
                " values of its records, also of those withheld.",
                hint='Name the values in order, as in {"ordered": ["low", "high"]}, use'
                " intervals, mask or dates, or allow such labels: `local_range=true`.",
            )


def build(
    spec: HierarchySpec, values: Sequence[str], column: str, pulse: Pulse = ignore_pulses
) -> Hierarchy:
    """Build a hierarchy from the values of a column.

    Parameters
    ----------
    values : the distinct values, in the column's order.
    column : the name of the column, for errors.
    pulse : called regularly; an exception from it cancels the work.

    Raises
    ------
    InvalidParameter : the builder rejects the values, or the hierarchy needs a database.
    """
    if spec.kind in DATABASE_KINDS:
        raise InvalidParameter(
            f'The hierarchy of "{column}" is read from a database, but no database is given here.',
            hint="Load it first, and give it as a Hierarchy.",
        )
    from dbanon.hierarchy.builders import BUILDERS

    with _prefix_errors(column):
        return BUILDERS[spec.kind](spec.parameters, values, pulse)


def build_enum_hierarchy(spec: HierarchySpec, labels: Sequence[str]) -> Hierarchy:
    """Build the hierarchy of an enumerated type from its labels in order."""
    from dbanon.hierarchy.builders import ordered

    return ordered(labels, spec.parameters.get("fanout", 2))


# By kind, a value to check parameters with, if they can be checked before values are read.
_SAMPLE_VALUES = {"intervals": "0", "dates": "2000-01-01", "mask": "-"}
# By kind, the key that may list the values in order, or be true for the column's own order.
_ORDER_KEYS = {"ordered": "ordered", "grouped": "order"}


def _parse_object(parameters: JsonMapping) -> Hierarchy | HierarchySpec:
    """Parse a JSON object; see ``parse``."""
    kinds = [key for key in parameters if key in KINDS]
    if len(kinds) != 1:
        unknown = [str(key) for key in parameters if key not in KINDS]
        suggested_names = nearest_names(unknown[0], KINDS) if unknown and not kinds else None
        raise InvalidParameter(
            "A hierarchy must have one key that says its kind.",
            hint=" ".join(filter(None, (suggested_names, _list_known_kinds()))),
        )
    [name] = kinds
    kind = KINDS[name]
    keys = {name: kind.key, **kind.options}
    for key, value in parameters.items():
        if key not in keys:
            raise InvalidParameter(
                f'A hierarchy of kind "{name}" has no such key.',
                hint="Known keys: " + ", ".join(keys) + ".",
            )
        if not keys[key].is_valid(value):
            raise InvalidParameter(f'"{key}" must be {keys[key].expected}.')
    if name == "tree":
        return _load_or_refuse(
            lambda: Hierarchy.from_json(parameters["tree"]),
            _describe_tree_format(),
        )
    if name == "levels":
        return Hierarchy.from_levels(parameters["levels"])
    from dbanon.hierarchy.builders import BUILDERS

    if isinstance(parameters.get(_ORDER_KEYS.get(name, "")), (list, tuple)):
        # The specification lists the values, so no column is needed to build the tree.
        return BUILDERS[name](parameters, (), ignore_pulses)
    if name in _SAMPLE_VALUES:
        # Build a tree of one value, only to check the parameters: they are valid for it if they are
        # valid for any value.
        sample = _SAMPLE_VALUES[name]
        if parameters.get("character") == sample:
            # Values must not contain the mask character.
            sample = "_"
        BUILDERS[name](parameters, (sample,), ignore_pulses)
    return HierarchySpec(name, json.dumps(dict(parameters), sort_keys=True))


def _load_or_refuse(load: Callable[[], Hierarchy], hint: str) -> Hierarchy:
    """Return the result of ``load``; if it fails, raises InvalidParameter with a hint."""
    try:
        return load()
    except FileNotFoundError:
        raise InvalidParameter(
            "The file of a hierarchy does not exist.",
            hint="A stored hierarchy is written name:NAME, a table of the database table:NAME.",
        ) from None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, csv.Error):
        raise InvalidParameter("A hierarchy cannot be read.", hint=hint) from None


def _load_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidParameter("A hierarchy is not valid JSON.", hint=_list_known_kinds()) from None


def _list_known_kinds() -> str:
    return "Known kinds: " + ", ".join(KINDS) + '; as in {"table": "ref.education_tree"}.'


def _describe_tree_format() -> str:
    return 'Write {"root": {"branch": ["leaf", …]}}, or a list of ["child", "parent"].'


@contextmanager
def _prefix_errors(column: str) -> Iterator[None]:
    """Prefix errors with the column of the hierarchy."""
    try:
        yield
    except (InvalidParameter, HierarchyBroken) as error:
        error.message = f'Column "{column}": {error.message}'
        raise
