"""The cases: arguments of ``dbanon.anonymize``, with models as plain values."""

from __future__ import annotations

from typing import Any

from tests.golden.doors import METHODS, RECODINGS
from tests.golden.tables import EDUCATION, SIZES, TOWNS

Arguments = dict[str, Any]

NUMBERS = ["age", "income", "weight"]
MIXED = ["age", "sex", "town", "education"]
TREES: Arguments = {
    "town": {"tree": {"*": TOWNS}},
    "education": {"levels": EDUCATION},
    "age": {"intervals": [5, 10, 20]},
}

# Methods that differ from those which group rows of numbers into classes. Methods without an entry
# here are called like these.
_MIXED_METHODS = ("gaa_cp", "kaca", "ebkc", "kmember", "mondrian", "full_domain")
_OF_ONE_LINE = ("optimal_univariate", "individual_ranking")
_BY_METHOD: dict[str, Arguments] = {
    "optimal_univariate": {"quasi_identifiers": ["income"]},
    "individual_ranking": {"guarantee": "per_attribute"},
    "genetic": {"options": {"population": 10, "generations": 15}, "seed": 7},
    "two_step": {"options": {"population": 10, "generations": 15, "macro": 24}, "seed": 7},
    "full_domain": {"options": {"suppression": 0.1}, "max_suppression": 0.1},
}


def of_method(method: str, recoding: str | None = None) -> Arguments:
    """A call of this method with columns that it supports."""
    by_kind = recoding == "representative" and method not in _OF_ONE_LINE
    mixed = by_kind or (method in _MIXED_METHODS and recoding in (None, "generalization"))
    arguments: Arguments = {"method": method, "k": 4}
    arguments["quasi_identifiers"] = [*MIXED, "weight"] if by_kind else MIXED if mixed else NUMBERS
    if mixed:
        arguments["hierarchies"] = TREES
    if recoding is not None:
        arguments["recoding"] = recoding
    return arguments | _BY_METHOD.get(method, {})


def _model(kind: str, level: float, **more: Any) -> Arguments:
    return {"kind": kind, "attribute": "illness", "level": level, **more}


_GAA: Arguments = of_method("gaa_cp")
_ILL: Arguments = {"sensitive": ["illness"]}

_VARIANTS: dict[str, Arguments] = {
    **{
        f"standardize/{name}": {"standardize": name}
        for name in ("zscore", "range", "none", "mahalanobis")
    },
    "weights": {"weights": {"age": 3, "weight": 0.5}},
    "dates": {"quasi_identifiers": ["born", "seen", "age"]},
    "dates/median": {"quasi_identifiers": ["born", "seen", "age"], "recoding": "median"},
    "nulls/error": {"quasi_identifiers": ["age", "holes"]},
    "nulls/suppress": {
        "quasi_identifiers": ["age", "holes"],
        "nulls": "suppress",
        "max_suppression": 0.2,
    },
    "nulls/suppress/budget": {
        "quasi_identifiers": ["age", "holes"],
        "nulls": "suppress",
        "max_suppression": 0.01,
    },
    "nulls/suppress/no budget": {"quasi_identifiers": ["age", "holes"], "nulls": "suppress"},
    "nulls/category": {"quasi_identifiers": ["age", "holes"], "nulls": "category"},
    "refine/fast": {"refine": "fast"},
    "refine/thorough": {"refine": "thorough", "refine_iterations": 12, "seed": 3},
    "refine/none": {"refine": "fast", "refine_iterations": 0},
    "refine/pass": {"refine": "pass"},
    "blocks": {"block_size": 24},
    "blocks/pass": {"block_size": 24, "refine": "pass"},
    "blocks/refine": {"block_size": 24, "refine": "fast"},
    "blocks/mixed": _GAA | {"block_size": 24},
    "by": {"by": ["sex"], "keep": ["zip"]},
    "entity": {"entity": "person", "sensitive": ["illness"]},
    "entity/mixed": _GAA
    | {
        "entity": "person",
        "by": ["sex"],
        "quasi_identifiers": ["age", "town"],
        "hierarchies": {"town": TREES["town"]},
    },
    "sensitive, kept": {"sensitive": ["illness"], "keep": ["note", "seen"]},
    "order": {
        "quasi_identifiers": ["age", "size"],
        "orders": {"size": SIZES},
        "recoding": "median",
    },
    "order/mean": {"quasi_identifiers": ["age", "size"], "orders": {"size": SIZES}},
    "order/mixed": {
        "method": "mondrian",
        "quasi_identifiers": ["age", "size"],
        "orders": {"size": SIZES},
    },
    "key": {"key": ["id"]},
    "view": {"output_kind": "view"},
    "chunks": {"chunk_rows": 7, "quasi_identifiers": [*NUMBERS, "born"]},
    "memory": {"memory_limit": 1000},
    **{
        f"individual_ranking/{name}": of_method("individual_ranking", name) | {"by": ["sex"]}
        for name in ("mean", "median", "medoid")
    },
    "individual_ranking/rows": {"method": "individual_ranking"},
    "vmdav/lambda": {"method": "vmdav", "options": {"lambda_": 0.8}},
    "mondrian/relaxed": of_method("mondrian") | {"options": {"cut": "relaxed"}},
    "full_domain/contract": of_method("full_domain")
    | {"options": {"contract": True, "suppression": 0.05}, "max_suppression": 0.05},
}

_GENERALIZED: dict[str, Arguments] = {
    **{
        f"intervals/{name}": _GAA | {"intervals": name}
        for name in ("text", "bounds", "midpoint", "range")
    },
    **{
        f"intervals/own/{name}": _GAA | {"intervals": name, "hierarchies": {}}
        for name in ("text", "bounds", "midpoint", "range")
    },
    "local range": _GAA | {"local_range": True, "hierarchies": {"town": TREES["town"]}},
    "steps": _GAA | {"steps": {"age": 7}, "hierarchies": {}},
    "numbers": _GAA | {"quasi_identifiers": [*NUMBERS, "born", "seen"], "hierarchies": {}},
    "gaa_cp/refine": _GAA | {"refine": "fast"},
    "gaa_cp/weights": _GAA | {"weights": {"age": 4}},
    "tree/dates": _GAA
    | {
        "quasi_identifiers": ["born", "sex"],
        "hierarchies": {"born": {"dates": ["month", "year", "decade"]}},
    },
    "tree/mask": _GAA
    | {"quasi_identifiers": ["zip", "sex"], "hierarchies": {"zip": {"mask": True}}},
    "tree/ordered": _GAA
    | {
        "quasi_identifiers": ["size", "sex"],
        "hierarchies": {"size": {"ordered": SIZES, "fanout": 2}},
    },
    "tree/grouped": _GAA
    | {
        "quasi_identifiers": ["size", "sex"],
        "hierarchies": {"size": {"grouped": [2, 2], "order": SIZES}},
    },
    "tree/table": _GAA | {"hierarchies": {"town": {"table": "ref.town"}}},
    "tree/name": _GAA | {"hierarchies": {"education": {"name": "education_tree"}}},
    "tree/unknown leaf": _GAA | {"hierarchies": {"town": {"tree": {"*": ["Abo", "Bex"]}}}},
}

_MODELS: dict[str, Arguments] = {
    "distinct_l": _model("distinct_l", 3),
    "entropy_l": _model("entropy_l", 2),
    "recursive_cl": _model("recursive_cl", 3, l=2),
    "t_closeness": _model("t_closeness", 0.35),
    "t_closeness/ordered": _model("t_closeness", 0.3, distance="ordered"),
    "t_closeness/tree": _model(
        "t_closeness",
        0.35,
        distance={"tree": {"*": {"lungs": ["asthma", "flu"], "other": ["cancer", "gout", "none"]}}},
    ),
    "alpha_k": _model("alpha_k", 0.5),
    "beta_likeness": _model("beta_likeness", 2.5),
    "delta_disclosure": _model("delta_disclosure", 2),
}

_PROTECTED: dict[str, Arguments] = {
    **{f"model/{name}": _ILL | {"models": [model]} for name, model in _MODELS.items()},
    **{f"model/mixed/{name}": _GAA | _ILL | {"models": [model]} for name, model in _MODELS.items()},
    "model/two": _ILL | {"models": [_MODELS["distinct_l"], _MODELS["t_closeness/ordered"]]},
    "model/levels": of_method("full_domain") | _ILL | {"models": [_MODELS["distinct_l"]]},
    "model/by": _ILL | {"models": [_MODELS["distinct_l"]], "by": ["sex"]},
    "model/withheld": _ILL
    | {"models": [_model("distinct_l", 4)], "withhold_failing": True, "max_suppression": 0.2},
    "model/infeasible": _ILL | {"models": [_model("distinct_l", 6)]},
    "model/not sensitive": {"models": [_MODELS["distinct_l"]]},
    "model/unknown": _ILL | {"models": [_model("triple_l", 3)]},
}

_REFUSED: dict[str, Arguments] = {
    "k of 1": {"k": 1},
    "k above n": {"k": 73},
    "k true": {"k": True},
    "unknown method": {"method": "mdva"},
    "unknown column": {"quasi_identifiers": ["age", "wieght"]},
    "unknown option": {"options": {"lambda_": 1}},
    "unknown recoding": {"recoding": "mode"},
    "unknown standardize": {"standardize": "robust"},
    "unknown intervals": {"intervals": "words"},
    "unknown refine": {"refine": "slow"},
    "unknown nulls": {"nulls": "drop"},
    "text": {"quasi_identifiers": ["age", "town"]},
    "no columns": {"quasi_identifiers": []},
    "a column twice": {"quasi_identifiers": ["age", "age"]},
    "a column in two roles": {"sensitive": ["age"]},
    "small blocks": {"block_size": 7},
    "budget above 1": {"max_suppression": 1.5},
    "seed below 0": {"seed": -1},
    "seconds of 0": {"refine": "fast", "refine_seconds": 0},
    "seconds in blocks": {"refine": "fast", "refine_seconds": 1, "block_size": 24},
    "iterations of a pass": {"refine": "pass", "refine_iterations": 5},
    "weights with mahalanobis": {"standardize": "mahalanobis", "weights": {"age": 2}},
    "weight of no column": {"weights": {"town": 2}},
    "unknown kind": {"output_kind": "index"},
    "entity among them": {"entity": "age"},
    "no table": {"table": "poeple"},
    "no way to replace": {"if_exists": "append"},
}


def all_cases() -> dict[str, Arguments]:
    """All cases by name, except those of a single interface."""
    cases = {
        f"{method}/{recoding or 'own'}": of_method(method, recoding)
        for method in METHODS
        for recoding in (None, *RECODINGS)
    }
    more = _VARIANTS | _GENERALIZED | _PROTECTED
    cases |= {f"with {name}": arguments for name, arguments in more.items()}
    cases |= {f"refused {name}": arguments for name, arguments in _REFUSED.items()}
    base: Arguments = {"quasi_identifiers": NUMBERS, "k": 4}
    return {name: base | arguments for name, arguments in cases.items()}
