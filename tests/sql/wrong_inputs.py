"""Wrong inputs for three interfaces: runs (``WRONG``, ``CONNECTED``) and other calls
(``CALLS``).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import dbanon

TABLES = (
    "CREATE TABLE app.people (id integer PRIMARY KEY, name text, a integer, b float8,"
    " twice integer, hole integer, ill text, nan float8)",
    "INSERT INTO app.people SELECT 7317300 + g, 'qzmark ' || g, 7317300 + g % 7, 73173.5 + g,"
    " g % 3, CASE g WHEN 5 THEN NULL ELSE 7317300 END, 'qzmark ill ' || g % 2, 'NaN'"
    " FROM generate_series(1, 40) AS g",
    "CREATE TABLE app.odd (id integer PRIMARY KEY, doc json, flag boolean, list integer[],"
    " bytes bytea, spot point, born date, day date, at timestamptz, clock time, low integer,"
    ' a integer, a_low integer, lone text, "' + "n" * 60 + '" integer)',
    "INSERT INTO app.odd SELECT g, '{}', g % 2 = 0, ARRAY[g], 'qzmark', point(g, g), '2000-01-01',"
    " CASE g WHEN 3 THEN 'infinity'::date ELSE date '2020-01-01' + g END,"
    " CASE g WHEN 3 THEN '-infinity'::timestamptz ELSE timestamptz '2020-01-01Z' END, '12:00',"
    " g % 4, 7317300 + g % 7, 1, CASE g WHEN 5 THEN NULL ELSE 'qzmark' END, g"
    " FROM generate_series(1, 40) AS g",
    "CREATE TABLE app.empty (id integer PRIMARY KEY, a integer, b float8)",
    "CREATE SEQUENCE app.numbers",
    "CREATE VIEW app.seen AS SELECT * FROM app.people",
    "CREATE TABLE release.taken (x integer)",
)
RIGHT: dict[str, Any] = {
    "table": "app.people",
    "output": "release.people",
    "quasi_identifiers": ["a", "b"],
    "k": 5,
}
TREE = {"method": "mondrian", "recoding": "generalization", "quasi_identifiers": ["name"]}
ODD = {"table": "app.odd", "quasi_identifiers": ["low"]}
RANGES = {"method": "mondrian", "recoding": "generalization", "quasi_identifiers": ["a"]}
LEVELS = [["qzmark", "x", "*"], ["qzmark", "y", "*"]]
MODELS: dict[str, Any] = {
    "sensitive": ["ill"],
    "models": [{"attribute": "ill", "kind": "distinct_l", "level": 2}],
}

# The error code, and the options that differ from RIGHT. Errors raised by click have exit code 2
# and no code of dbanon's on the command line: these end in "(word)".
WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "no such column": ("column_not_found", {"quasi_identifiers": ["aa"]}),
    "no quasi-identifier": ("invalid_parameter", {"quasi_identifiers": []}),
    "a column twice": ("invalid_parameter", {"quasi_identifiers": ["a", "a"]}),
    "text for numbers": ("unsupported_type", {"quasi_identifiers": ["name"]}),
    "a NULL": ("null_in_quasi_identifier", {"quasi_identifiers": ["a", "hole"]}),
    "NaN": ("non_finite_value", {"quasi_identifiers": ["nan"]}),
    "k of one": ("invalid_parameter", {"k": 1}),
    "k below 0": ("invalid_parameter", {"k": -5}),
    "k above the rows": ("too_few_records", {"k": 41}),
    "k as text (word)": ("invalid_parameter", {"k": "five"}),
    "unknown nulls (word)": ("invalid_parameter", {"nulls": "sometimes"}),
    "a budget too small": (
        "suppression_over_budget",
        {"quasi_identifiers": ["a", "hole"], "nulls": "suppress", "max_suppression": 0.01},
    ),
    "a pattern too small": (
        "too_few_records",
        {"quasi_identifiers": ["a", "hole"], "nulls": "category"},
    ),
    "a pattern that no other holds": (
        "too_few_records",
        {"quasi_identifiers": ["a", "hole"], "nulls": "merge"},
    ),
    "an unknown kind": ("invalid_parameter", {"kinds": {"a": "ordered"}}),
    "a kind of no quasi-identifier": ("invalid_parameter", {"kinds": {"elsewhere": "nominal"}}),
    "a share above 1": ("invalid_parameter", {"max_suppression": 2.5}),
    "a share below 0": ("invalid_parameter", {"max_suppression": -0.5}),
    "an output that exists": (
        "output_not_ours",
        {"output": "release.taken", "if_exists": "replace"},
    ),
    "an output in the way": ("output_exists", {"output": "release.taken"}),
    "the source as output": ("output_exists", {"output": "app.people"}),
    "an output of four parts": ("invalid_name", {"output": "a.b.c.d"}),
    "an empty output": ("invalid_name", {"output": ""}),
    "a long output": ("name_too_long", {"output": "release." + "x" * 64}),
    "unknown if_exists (word)": ("invalid_parameter", {"if_exists": "overwrite"}),
    "unknown output_kind (word)": ("invalid_parameter", {"output_kind": "heap"}),
    "unknown recoding (word)": ("invalid_parameter", {"recoding": "meen"}),
    "a recoding of another method": ("invalid_parameter", {"recoding": "secure"}),
    "unknown standardize (word)": ("invalid_parameter", {"standardize": "z"}),
    "a weight of no column": ("invalid_parameter", {"weights": {"zz": 1.0}}),
    "a weight below 0": ("invalid_parameter", {"weights": {"a": -1.0}}),
    "weights beside Mahalanobis": (
        "invalid_parameter",
        {"weights": {"a": 2.0}, "standardize": "mahalanobis"},
    ),
    "a seed below 0": ("invalid_parameter", {"seed": -1}),
    "unknown refinement (word)": ("invalid_parameter", {"refine": "fastest"}),
    "a budget without refinement": ("invalid_parameter", {"refine_iterations": 5}),
    "no time to refine": ("invalid_parameter", {"refine": "fast", "refine_seconds": 0.0}),
    "attacks without an evaluation": ("invalid_parameter", {"attacks": True}),
    "no time for a certificate": ("invalid_parameter", {"certificate": 0.0}),
    "a certificate of ranges": ("invalid_parameter", {**RANGES, "certificate": 5.0}),
    "blocks below 2k": ("invalid_parameter", {"block_size": 9}),
    "seconds in blocks": (
        "invalid_parameter",
        {"refine": "fast", "refine_seconds": 1.0, "block_size": 24},
    ),
    "iterations of a pass": ("invalid_parameter", {"refine": "pass", "refine_iterations": 5}),
    "an entity that is not there": ("column_not_found", {"entity": "aa"}),
    "an entity that is released": ("invalid_parameter", {"entity": "a"}),
    "a column in two roles": ("invalid_parameter", {"sensitive": ["a"]}),
    "a kept column that is not there": ("column_not_found", {"keep": ["zz"]}),
    "a sensitive column that is not there": ("column_not_found", {"sensitive": ["zz"]}),
    "a key that is not there": ("column_not_found", {"key": ["zz"]}),
    "a key that repeats": ("duplicate_keys", {"key": ["twice"]}),
    "a key named twice": ("invalid_parameter", {"key": ["id", "id"]}),
    "a view without a key": ("key_required", {"table": "app.seen"}),
    "strata that are not there": ("column_not_found", {"by": ["zz"]}),
    "strata below k": ("too_few_records", {"by": ["id"]}),
    "a model of no sensitive column": (
        "invalid_parameter",
        {"models": [{"attribute": "ill", "kind": "distinct_l", "level": 2}]},
    ),
    "an unknown model": (
        "invalid_parameter",
        {"sensitive": ["ill"], "models": [{"attribute": "ill", "kind": "likeness", "level": 2}]},
    ),
    "a level of 0": (
        "invalid_parameter",
        {"sensitive": ["ill"], "models": [{"attribute": "ill", "kind": "distinct_l", "level": 0}]},
    ),
    "a model that cannot be": (
        "model_infeasible",
        {"sensitive": ["ill"], "models": [{"attribute": "ill", "kind": "distinct_l", "level": 3}]},
    ),
    "a top of no quasi-identifier": ("invalid_parameter", {"top": {"zz": 90.0}}),
    "a bottom above the top": ("invalid_parameter", {"bottom": {"a": 5.0}, "top": {"a": 3.0}}),
    "borders that do not ascend": ("invalid_parameter", {"recode": {"a": [5.0, 3.0]}}),
    "a group without values": ("invalid_parameter", {"recode": {"a": {"low": []}}}),
    "values in no group": (
        "invalid_parameter",
        {"recode": {"a": {"low": [1]}}, "method": "gaa_cp"},
    ),
    "shifted dates without columns": (
        "invalid_parameter",
        {"shift_dates": {"days": 9, "columns": []}},
    ),
    "shifted dates that are not copied": (
        "invalid_parameter",
        {"shift_dates": {"days": 9, "columns": ["id"]}},
    ),
    "an unknown profile (word)": ("invalid_parameter", {"profile": "gdpr"}),
    "a profile that needs a larger k": ("profile_broken", {"profile": "ema"}),
    "populations without a profile": ("invalid_parameter", {"zip_population": "nobody"}),
    "a set of no column": ("invalid_parameter", {"also_k": [[]]}),
    "a set of a column that is not released": ("invalid_parameter", {"also_k": [["nobody"]]}),
    "withholding without a budget": ("invalid_parameter", {**MODELS, "withhold_failing": True}),
    "withholding without models": (
        "invalid_parameter",
        {"withhold_failing": True, "max_suppression": 0.1},
    ),
    "a hierarchy of no column": ("invalid_parameter", {"hierarchies": {"zz": {"mask": 1}}}),
    "an unknown hierarchy": ("invalid_parameter", {**TREE, "hierarchies": {"name": {"maskk": 1}}}),
    "a hierarchy that is not stored": (
        "hierarchy_not_found",
        {**TREE, "hierarchies": {"name": {"name": "nobody"}}},
    ),
    "a hierarchy without the values": (
        "hierarchy_broken",
        {**TREE, "hierarchies": {"name": {"tree": {"*": ["x", "y"]}}}},
    ),
    "a hierarchy with two parents": (
        "hierarchy_broken",
        {**TREE, "hierarchies": {"name": {"tree": [["x", "y"], ["x", "z"], ["y", "z"]]}}},
    ),
    "a hierarchy in a table that is not there": (
        "table_not_found",
        {**TREE, "hierarchies": {"name": {"table": "app.nothing"}}},
    ),
    "an order without the values": (
        "value_not_in_order",
        {"quasi_identifiers": ["name"], "orders": {"name": ["x", "y"]}},
    ),
    "an order of no column": ("invalid_parameter", {"orders": {"zz": ["x", "y"]}}),
    "an order of numbers": ("unsupported_type", {"orders": {"a": ["1", "2"]}}),
    "an order with a value twice": (
        "invalid_parameter",
        {"quasi_identifiers": ["name"], "orders": {"name": ["x", "x"]}},
    ),
    "too little memory": ("memory_limit", {"memory_limit": 500}),
    "no memory": ("invalid_parameter", {"memory_limit": 0}),
    "unknown intervals (word)": ("invalid_parameter", {"intervals": "texts"}),
    "a step of 0": ("invalid_parameter", {"steps": {"a": 0.0}}),
    "unknown guarantee (word)": ("invalid_parameter", {"guarantee": "columns"}),
    "a guarantee of another method": ("invalid_parameter", {"guarantee": "per_attribute"}),
    "a method without its guarantee": ("invalid_parameter", {"method": "individual_ranking"}),
    "a kept column that looks like an identifier": (
        "kept_identifier",
        {"keep": ["id"], "strict": True},
    ),
    "a kept column that tells": (
        "telling_column",
        {"quasi_identifiers": ["a"], "keep": ["b"], "strict": True},
    ),
    "a spelling that is none (word)": (
        "invalid_parameter",
        {"entity": "id", "entity_normalize": "upper"},
    ),
    "releases that are neither (word)": ("invalid_parameter", {"releases": "dependent"}),
    "spellings of nobody": ("invalid_parameter", {"entity_normalize": "trim"}),
    "persons in parts (word)": ("invalid_parameter", {"entity": "id", "persons": "parts"}),
    "a form of no weight": ("invalid_parameter", {"weight_as": "mean"}),
    "a form of weights that is none (word)": (
        "invalid_parameter",
        {"design_weight": "twice", "weight_as": "calibrated"},
    ),
    "a weight that is a quasi-identifier": ("invalid_parameter", {"design_weight": "a"}),
    "rows of nobody": ("invalid_parameter", {"persons": "rows"}),
    "an option of another method": ("unknown_option", {"options": {"gamma": 1}}),
    "an option of another type": (
        "invalid_parameter",
        {"method": "vmdav", "options": {"lambda_": "much"}},
    ),
    "too many columns for the method": ("invalid_parameter", {"method": "optimal_univariate"}),
    "a table that is not there": ("table_not_found", {"table": "app.nobody"}),
    "a table of an impossible name": ("invalid_name", {"table": "app..people"}),
    "a table that is a sequence": ("table_not_found", {"table": "app.numbers"}),
    "a table that is an index": ("table_not_found", {"table": "app.people_pkey"}),
    "a table without rows": ("too_few_records", {"table": "app.empty"}),
    "nothing to digest": ("too_few_records", {"table": "app.empty", "source_digest": True}),
    "nothing to evaluate": ("too_few_records", {"table": "app.empty", "evaluate": True}),
    "an output among the server's own": ("invalid_name", {"output": "pg_catalog.people"}),
    "an output with an open quote": ("invalid_name", {"output": 'release."people'}),
    "an output that is an index": ("output_exists", {"output": "app.people_pkey"}),
    "a view where a table is": (
        "output_not_ours",
        {"output": "release.taken", "output_kind": "view", "if_exists": "replace"},
    ),
    "documents": ("unsupported_type", {**ODD, "quasi_identifiers": ["doc"]}),
    "truth values": ("unsupported_type", {**ODD, "quasi_identifiers": ["flag"]}),
    "arrays": ("unsupported_type", {**ODD, "quasi_identifiers": ["list"]}),
    "bytes": ("unsupported_type", {**ODD, "quasi_identifiers": ["bytes"]}),
    "times of day": ("unsupported_type", {**ODD, "quasi_identifiers": ["clock"]}),
    "a day without end": ("non_finite_value", {**ODD, "quasi_identifiers": ["day"]}),
    "a moment without end": ("non_finite_value", {**ODD, "quasi_identifiers": ["at"]}),
    "strata of documents": ("unsupported_type", {**ODD, "by": ["doc"]}),
    "a key of points": ("unsupported_type", {**ODD, "key": ["spot"]}),
    "persons of documents": ("unsupported_type", {**ODD, "entity": "doc"}),
    "nobody's row": ("null_in_entity", {**ODD, "entity": "lone"}),
    "fewer persons than k": ("too_few_records", {"entity": "ill", "k": 3}),
    "persons of each attribute": (
        "invalid_parameter",
        {"entity": "id", "method": "individual_ranking", "guarantee": "per_attribute"},
    ),
    "a column of the system": ("column_not_found", {"keep": ["xmin"]}),
    "a column that a bound would take": (
        "invalid_parameter",
        {**ODD, **RANGES, "intervals": "bounds", "keep": ["a_low"]},
    ),
    "a name too long for its bounds": (
        "name_too_long",
        {**ODD, **RANGES, "intervals": "bounds", "quasi_identifiers": ["n" * 60]},
    ),
    "k of NULL (missing)": ("invalid_parameter", {"k": None}),
    "an output of NULL (missing)": ("invalid_parameter", {"output": None}),
    "a share as text (word)": ("invalid_parameter", {"max_suppression": "half"}),
    "a share that is no number": ("invalid_parameter", {"max_suppression": float("nan")}),
    "a seed as text (word)": ("invalid_parameter", {"seed": "x"}),
    "blocks as text (word)": ("invalid_parameter", {"block_size": "large"}),
    "blocks of a method without": (
        "invalid_parameter",
        {"method": "individual_ranking", "guarantee": "per_attribute", "block_size": 20},
    ),
    "refined without classes of rows": (
        "invalid_parameter",
        {"method": "individual_ranking", "guarantee": "per_attribute", "refine": "fast"},
    ),
    "models of each attribute": (
        "invalid_parameter",
        {**MODELS, "method": "individual_ranking", "guarantee": "per_attribute"},
    ),
    "ranges of ranks": (
        "invalid_parameter",
        {
            "method": "individual_ranking",
            "guarantee": "per_attribute",
            "recoding": "generalization",
        },
    ),
    "a budget for refinement below 0": (
        "invalid_parameter",
        {"refine": "fast", "refine_iterations": -1},
    ),
    "a model of another column": (
        "invalid_parameter",
        {**MODELS, "models": [{"attribute": "zz", "kind": "distinct_l", "level": 2}]},
    ),
    "a model's distance above 1": (
        "invalid_parameter",
        {**MODELS, "models": [{"attribute": "ill", "kind": "t_closeness", "level": 1.5}]},
    ),
    "a model's share above 1": (
        "invalid_parameter",
        {**MODELS, "models": [{"attribute": "ill", "kind": "alpha_k", "level": 1.5}]},
    ),
    "a model's level that is no number": (
        "invalid_parameter",
        {**MODELS, "models": [{"attribute": "ill", "kind": "entropy_l", "level": float("nan")}]},
    ),
    "no hierarchy": ("invalid_parameter", {**TREE, "hierarchies": {"name": {}}}),
    "two hierarchies in one": (
        "invalid_parameter",
        {**TREE, "hierarchies": {"name": {"mask": 1, "prefixes": [2]}}},
    ),
    "a mask as text": ("invalid_parameter", {**TREE, "hierarchies": {"name": {"mask": "x"}}}),
    "an empty tree": ("hierarchy_broken", {**TREE, "hierarchies": {"name": {"tree": {}}}}),
    "a tree in a circle": (
        "hierarchy_broken",
        {**TREE, "hierarchies": {"name": {"tree": [["x", "y"], ["y", "x"]]}}},
    ),
    "widths that do not widen": (
        "invalid_parameter",
        {**RANGES, "hierarchies": {"a": {"intervals": [10, 5]}}},
    ),
    "months of numbers": (
        "invalid_parameter",
        {**RANGES, "hierarchies": {"a": {"dates": ["month"]}}},
    ),
    "an unknown unit of time": (
        "invalid_parameter",
        {
            **ODD,
            **RANGES,
            "quasi_identifiers": ["born"],
            "hierarchies": {"born": {"dates": ["eon"]}},
        },
    ),
    "a step of no column": ("invalid_parameter", {**RANGES, "steps": {"zz": 1.0}}),
    "a step below 0": ("invalid_parameter", {**RANGES, "steps": {"a": -1.0}}),
    "an infinite weight": ("invalid_parameter", {"weights": {"a": float("inf")}}),
    "an option below its range": (
        "invalid_parameter",
        {"method": "vmdav", "options": {"lambda_": -1.0}},
    ),
}

# The calling role or connection: URL parameters, with the wrong input.
CONNECTED: dict[str, tuple[str, dict[str, Any]]] = {
    "a transaction that may only read": (
        "read_only",
        {"query": {"options": "-cdefault_transaction_read_only=on"}},
    ),
    "a role that may not read": ("insufficient_rights", {"role": "blind"}),
    "a role that may not write": ("insufficient_rights", {"role": "reader"}),
}

# Other calls: in Python, the words of a command after its URL, and in SQL.
Call = Callable[[str], Any]
CALLS: dict[str, tuple[str, Call, list[str], str]] = {
    "shown: a release that is not there": (
        "release_not_found",
        lambda url: dbanon.show(url, "release.nobody"),
        ["show", "URL", "release.nobody"],
        "SELECT dbanon.show('release.nobody')",
    ),
    "shown: a table that is no release": (
        "release_not_found",
        lambda url: dbanon.show(url, "release.taken"),
        ["show", "URL", "release.taken"],
        "SELECT dbanon.show('release.taken')",
    ),
    "shown: an id of nobody": (
        "release_not_found",
        lambda url: dbanon.show(url, "00000000-0000-4000-8000-000000000000"),
        ["show", "URL", "00000000-0000-4000-8000-000000000000"],
        "SELECT dbanon.show('00000000-0000-4000-8000-000000000000')",
    ),
    "dropped: a release that is not there": (
        "release_not_found",
        lambda url: dbanon.drop(url, "release.nobody"),
        ["drop", "URL", "release.nobody"],
        "SELECT dbanon.drop('release.nobody')",
    ),
    "dropped: a table that is no release": (
        "release_not_found",
        lambda url: dbanon.drop(url, "app.people"),
        ["drop", "URL", "app.people"],
        "SELECT dbanon.drop('app.people')",
    ),
    "dropped: a hierarchy that is not there": (
        "hierarchy_not_found",
        lambda url: dbanon.drop_hierarchy(url, "nobody"),
        ["hierarchy", "drop", "URL", "nobody"],
        "SELECT dbanon.drop_hierarchy('nobody')",
    ),
    "stored: a hierarchy with two parents": (
        "hierarchy_broken",
        lambda url: dbanon.store_hierarchy(url, "x", {"levels": LEVELS}),
        ["hierarchy", "store", "URL", "x", "--from", json.dumps({"levels": LEVELS})],
        f"SELECT dbanon.store_hierarchy('x', '{json.dumps({'levels': LEVELS})}')",
    ),
    "stored: a hierarchy without a name": (
        "invalid_name",
        lambda url: dbanon.store_hierarchy(url, "", {"levels": LEVELS[:1]}),
        ["hierarchy", "store", "URL", "", "--from", json.dumps({"levels": LEVELS[:1]})],
        f"SELECT dbanon.store_hierarchy('', '{json.dumps({'levels': LEVELS[:1]})}')",
    ),
}
