"""The keys of ``options`` in SQL calls: one schema, from the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbanon.errors import InvalidParameter, NotBuilt, UnknownOption, nearest_names
from dbanon.hierarchy.spec import parse as parse_hierarchy
from dbanon.measures import ORDERS, Model, model_kinds
from dbanon.methods import find_method

# Other names of privacy models, as keys.
SHORT_MODELS = {"l_diversity": "distinct_l"}

# Key: default, what it must be, for help and for messages.
COMMON: dict[str, tuple[Any, str]] = {
    "standardize": ("zscore", "zscore, range, none or mahalanobis: the scale of columns"),
    "weights": ({}, "an object of numbers: weight of a column in the squared distance"),
    "orders": ({}, "an object of lists: the values of a text column from lowest to highest"),
    "seed": (0, "a whole number, for methods that draw"),
    "refine": (None, "fast or thorough: the classes are improved by local search"),
    "refine_iterations": (None, "a whole number: as many rounds of refine"),
    "refine_seconds": (None, "a number: time limit of refine for each stratum"),
    "block_size": (None, "a whole number: cut into blocks of so many rows, on all cores"),
    "key": ((), "a list of columns that tell every row from every other"),
    "progress": (False, "true or false: a NOTICE at most every 2 seconds"),
    "memory_limit": (None, "bytes that the call may use; half of the machine's memory by default"),
}
WRITING: dict[str, tuple[Any, str]] = {
    "by": ((), "a list of columns that classes must not cross; released as they are"),
    "output_kind": ("table", "table, or view for a stable name over a released table"),
    "guarantee": ("rows", "rows, or per_attribute: rows are then not k-anonymous"),
    "strict": (False, "true: a column released as it is that tells too much is refused"),
    "recoding": (None, "what a class is released with; the method's own by default"),
    "intervals": ("text", "text, bounds, midpoint or range: how a range of numbers is released"),
    "local_range": (False, "true: ranges end at values of members; false: at a fixed grid"),
    "steps": ({}, "an object of numbers: width of the grid by column"),
    "models": (
        (),
        'a list of privacy models: {"attribute": "diagnosis", "kind": "distinct_l", "level": 3},'
        ' with "l" for recursive_cl and "distance" for t_closeness (equal, ordered or a hierarchy)',
    ),
    "withhold_failing": (
        False,
        "true: rows of classes that fail a model may be withheld, within max_suppression",
    ),
    **{
        kind: (
            {},
            f"an object: the level of {SHORT_MODELS.get(kind, kind)} by column, or an object with"
            " level and the model's own keys",
        )
        for kind in (*SHORT_MODELS, *model_kinds())
    },
}
READING: dict[str, tuple[Any, str]] = {
    "nulls": ("error", "error, suppress or category"),
    "max_suppression": (0.0, "a number from 0 to 1: the largest share of rows withheld"),
    "hierarchies": ({}, "an object: a hierarchy by column, as for the method's function"),
    "entity": (None, "the column that says whose a row is: k counts its values"),
}

# Keys that the policy has under the same name.
OF_THE_POLICY = (
    *("standardize", "weights", "orders", "seed", "recoding", "refine", "refine_iterations"),
    *("refine_seconds", "block_size", "intervals", "local_range", "steps", "guarantee"),
    *("withhold_failing", "strict"),
)

LATER = ("where", "on_column_change")


def known(method: str, *, writes: bool) -> dict[str, str]:
    """The keys that a call of this method takes, with what each must be."""
    common = {**COMMON, **(WRITING if writes else READING)}
    own = {o.name: f"{o.expected}: {o.help}" for o in find_method(method).options}
    return {**{name: text for name, (_, text) in common.items()}, **own}


def parse(method: str, given: Any, *, writes: bool) -> dict[str, Any]:
    """The options of a call, with the defaults of those not given; ``method_options`` apart.

    Raises
    ------
    UnknownOption : there is no such key.
    NotBuilt : the key belongs to a later version.
    InvalidParameter : a value has another type.
    """
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise InvalidParameter("options must be a JSON object.", hint="As in '{\"seed\": 1}'.")
    keys = known(method, writes=writes)
    own = {option.name for option in find_method(method).options}
    defaults = {**COMMON, **(WRITING if writes else READING)}
    values: dict[str, Any] = {name: default for name, (default, _) in defaults.items()}
    values["method_options"] = {}
    for name, value in given.items():
        if name in own:
            values["method_options"][name] = value
        elif name in defaults:
            if not _fits(name, value):
                raise InvalidParameter(f'Option "{name}" must be {defaults[name][1]}.')
            values[name] = tuple(value) if isinstance(value, list) else value
        elif name in LATER:
            raise NotBuilt(f'Option "{name}" is not built yet.', hint=_hint(keys))
        else:
            raise UnknownOption("There is no such option.", hint=_hint(keys, name))
    return values


def models(wanted: Mapping[str, Any]) -> tuple[Model, ...]:
    """The privacy models of the options, as ``parse`` gives them.

    Raises
    ------
    InvalidParameter : a model is not one.
    """
    found = [_model(given) for given in wanted["models"]]
    for kind in (*SHORT_MODELS, *model_kinds()):
        for attribute, level in wanted[kind].items():
            more = level if isinstance(level, Mapping) else {"level": level}
            if "kind" in more or "attribute" in more:
                raise InvalidParameter(f'Option "{kind}" says kind and attribute by itself.')
            kind_of = SHORT_MODELS.get(kind, kind)
            found.append(_model({"kind": kind_of, "attribute": attribute, **more}))
    return tuple(found)


# Keys of a model: its type, and what it must be.
_MODEL_KEYS: dict[str, tuple[tuple[type, ...], str]] = {
    "attribute": ((str,), "the name of a sensitive column"),
    "kind": ((str,), "the name of a privacy model"),
    "level": ((int, float), "a number"),
    "l": ((int,), "a whole number"),
    "distance": ((str, Mapping), "equal, ordered or a hierarchy"),
}
_MODEL_OWN = {"l": "recursive_cl", "distance": "t_closeness"}


def _model(given: Any) -> Model:
    if not isinstance(given, Mapping) or not {"attribute", "kind", "level"} <= set(given):
        raise InvalidParameter(
            "A privacy model must be an object with attribute, kind and level.",
            hint='As in {"attribute": "diagnosis", "kind": "distinct_l", "level": 3}.',
        )
    for key, value in given.items():
        if key not in _MODEL_KEYS or _MODEL_OWN.get(key, given["kind"]) != given["kind"]:
            raise InvalidParameter(
                "A privacy model has no such key.",
                hint="Known keys: "
                + ", ".join(_MODEL_KEYS)
                + "; l belongs to recursive_cl, distance"
                " to t_closeness.",
            )
        types, expected = _MODEL_KEYS[key]
        if not isinstance(value, types) or isinstance(value, bool):
            raise InvalidParameter(f'"{key}" of a privacy model must be {expected}.')
    more = dict(given)
    if more.get("distance", "equal") not in ORDERS:
        more["distance"] = parse_hierarchy(more["distance"], files=False)
    return Model(**more)


def _hint(keys: Mapping[str, str], name: str = "") -> str:
    near = nearest_names(name, keys) if name else None
    return (near + " " if near else "") + "Known options: " + ", ".join(keys) + "."


def _fits(name: str, value: Any) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if name == "max_suppression":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if name == "seed":
        return whole and value >= 0
    if name in ("memory_limit", "refine_iterations", "block_size"):
        return value is None or (whole and value > 0)
    if name == "refine_seconds":
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return value is None or (number and value > 0)
    if name in ("progress", "local_range", "withhold_failing", "strict"):
        return isinstance(value, bool)
    if name in ("key", "by"):
        return isinstance(value, list) and all(isinstance(part, str) for part in value)
    if name == "models":
        return isinstance(value, list)
    if name == "hierarchies" or name in SHORT_MODELS or name in model_kinds():
        return isinstance(value, dict)
    if name == "orders":
        return isinstance(value, dict) and all(
            isinstance(order, list) and all(isinstance(text, str) for text in order)
            for order in value.values()
        )
    if name in ("weights", "steps"):
        return isinstance(value, dict) and all(
            isinstance(weight, (int, float)) and not isinstance(weight, bool)
            for weight in value.values()
        )
    return (isinstance(value, str) and bool(value)) or (
        name in ("recoding", "refine", "entity") and value is None
    )
