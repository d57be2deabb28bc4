"""Cases of hints: what raises each, and what a user does who follows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.doors.hint_doors import model

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A hint, the options that raise it, and its ways out.

    Options that the hint prints with a value are taken from its text; what follows is for the rest.

    Parameters
    ----------
    hint : the beginning of its text in the sources.
    options : what raises it, beside those of the source.
    values : what a user writes for an option that the hint names without a value.
    leave_out : options that the hint names as to be left out.
    does : what the hint says in words, as options; each is a way out.
    needs : other options of a way out, by the option that it changes.
    not_ways : options with values that the hint names as what is the case.
    doors : where it can occur.
    """

    hint: str
    options: Options
    values: Options = field(default_factory=dict)
    leave_out: Sequence[str] = ()
    does: Sequence[Options] = ()
    needs: Mapping[str, Options] = field(default_factory=dict)
    not_ways: Sequence[str] = ()
    doors: tuple[str, ...] = ("python", "cli", "job")


_AGE = {"hierarchies": {"age": {"intervals": [10, 20]}}}
_TOWNS = {"hierarchies": {"town": {"tree": {"*": ["a", "b", "c", "d", "e"]}}}}
_GENERALIZE = {"recoding": "generalization"}
_ILL = {"sensitive": ["ill"]}
_LINE = ("python", "cli")
_WILDCARD = {"method": "local_suppression", "options": {"missing": "wildcard"}}

# Options of a release of a table in a database.
OF_TABLES = (
    # k, suppression, NULLs.
    Case(
        'Choose `nulls="category"` (classes',
        {"quasi_identifiers": ["hole"]},
        needs={"nulls=suppress": {"max_suppression": 0.2}},
    ),
    Case(
        "It would be feasible with `max_suppression={}`",
        {"quasi_identifiers": ["hole"], "nulls": "suppress"},
    ),
    Case("Choose `k={}` or less.", {"k": 500}),
    Case(
        "Common choices are 3, 5 and 10.",
        {"k": 1},
        does=[{"k": 3}, {"k": 5}, {"k": 10}],
        doors=_LINE,
    ),
    Case(
        "Say which share of records may be withheld: `max_suppression`.",
        {**_ILL, "models": [model("ill", "distinct_l", 2)], "withhold_failing": True},
        values={"max_suppression": 0.5},
    ),
    Case(
        "Leave columns out of the strata, bring rare",
        {"by": ["rare"]},
        values={"max_suppression": 0.1},
        does=[{"by": None}],
    ),
    Case(
        'With `nulls="category"` each pattern',
        {"quasi_identifiers": ["part", "pair"], "nulls": "category"},
        values={"max_suppression": 0.1},
        needs={"nulls=suppress": {"max_suppression": 0.1}},
        not_ways=["nulls=category"],
    ),
    # Methods and recodings.
    Case(
        "Choose a method that groups rows. A release whose",
        {"method": "individual_ranking"},
        does=[{"method": "mdav"}],
    ),
    Case("Leave out `guarantee`.", {"guarantee": "per_attribute"}, leave_out=["guarantee"]),
    Case(
        "Leave out `models`, or choose a method that groups rows.",
        {
            **_ILL,
            "method": "individual_ranking",
            "guarantee": "per_attribute",
            "models": [model("ill", "distinct_l", 2)],
        },
        leave_out=["models"],
        does=[{"method": "mdav", "guarantee": None}],
    ),
    Case(
        "Leave out `also_k`, or choose a method that groups rows.",
        {"method": "individual_ranking", "guarantee": "per_attribute", "also_k": [["age"]]},
        leave_out=["also_k"],
        does=[{"method": "mdav", "guarantee": None}],
    ),
    Case(
        'Use `recoding="mean"`, `recoding="median"` or `recoding="medoid"`.',
        {**_GENERALIZE, "method": "individual_ranking", "guarantee": "per_attribute"},
    ),
    Case(
        "Leave out `entity`.",
        {"method": "individual_ranking", "guarantee": "per_attribute", "entity": "pid"},
        leave_out=["entity"],
    ),
    Case(
        "Leave out `standardize`.",
        {
            "method": "individual_ranking",
            "guarantee": "per_attribute",
            "standardize": "mahalanobis",
        },
        leave_out=["standardize"],
    ),
    Case(
        "Leave out `refine`.",
        {"method": "individual_ranking", "guarantee": "per_attribute", "refine": "fast"},
        leave_out=["refine"],
    ),
    Case(
        'Choose `refine="fast"`, or leave the limit out.',
        {"refine_iterations": 5},
        does=[{"refine_iterations": None}],
    ),
    Case(
        'Leave out `refine_iterations`, or choose `refine="fast"`.',
        {"refine": "pass", "refine_iterations": 5},
        leave_out=["refine_iterations"],
    ),
    Case(
        "Leave out `refine_seconds`, or give `refine_iterations`.",
        {"refine": "fast", "refine_seconds": 1.0, "block_size": 50},
        leave_out=["refine_seconds"],
        values={"refine_iterations": 5},
        needs={"refine_iterations": {"refine_seconds": None}},
    ),
    Case(
        "Give `refine_iterations`.",
        {
            **_GENERALIZE,
            **_TOWNS,
            "method": "gaa_cp",
            "quasi_identifiers": ["age", "town"],
            "refine": "fast",
            "refine_seconds": 1.0,
        },
        values={"refine_iterations": 5},
        needs={"refine_iterations": {"refine_seconds": None}},
    ),
    Case(
        "Leave out `certificate`, or choose a method and",
        {**_GENERALIZE, "certificate": 1.0},
        leave_out=["certificate"],
        does=[{"recoding": None}],
    ),
    Case(
        'Choose `standardize="range"` or `standardize="zscore"`.',
        {
            "quasi_identifiers": ["age", "town"],
            "recoding": "representative",
            "standardize": "mahalanobis",
        },
    ),
    Case(
        "Leave them out, or choose `standardize=",
        {"standardize": "mahalanobis", "weights": {"age": 2}},
        does=[{"weights": None}],
    ),
    Case(
        "Give weights to quasi-identifiers only.",
        {"weights": {"town": 2}},
        does=[{"weights": {"age": 2}}],
        doors=_LINE,
    ),
    Case(
        "Give hierarchies to quasi-identifiers only.",
        {**_TOWNS, **_GENERALIZE},
        does=[{"hierarchies": None}, _AGE],
        doors=_LINE,
    ),
    Case(
        "State `orders` of quasi-identifiers only.",
        {"orders": {"town": ["a", "b"]}},
        does=[{"orders": None}],
        doors=_LINE,
    ),
    Case(
        "State `kinds` of quasi-identifiers only.",
        {"kinds": {"town": "nominal"}},
        does=[{"kinds": None}],
        doors=_LINE,
    ),
    Case(
        "State all values of the column (`orders`)",
        {"quasi_identifiers": ["town"], "recoding": "median", "orders": {"town": ["a", "b"]}},
        values={"orders": {"town": ["a", "b", "c", "d", "e"]}},
    ),
    Case(
        "Numbers and dates have their own order",
        {"orders": {"age": ["20", "30"]}},
        does=[{"orders": None}],
    ),
    # Coding.
    Case(
        "Name at least one border in `recode`",
        {"recode": {"age": []}},
        values={"recode": {"age": [30]}},
        does=[{"recode": None}],
        doors=("python", "job"),
    ),
    Case(
        "Name each border once, from the lowest to the highest: `recode`.",
        {"recode": {"age": [40, 30]}},
        values={"recode": {"age": [30, 40]}},
    ),
    Case(
        "Name its thresholds as the first and the last border of `recode`.",
        {"recode": {"age": [30, 40]}, "top": {"age": 50}},
        values={"recode": {"age": [30, 40, 50]}},
        needs={"recode": {"top": None}},
    ),
    Case(
        "Exchange them, or leave one out.",
        {"top": {"age": 30}, "bottom": {"age": 50}},
        does=[{"top": {"age": 50}, "bottom": {"age": 30}}, {"top": None}, {"bottom": None}],
    ),
    Case(
        "Make it a quasi-identifier, or copy it: `keep`.",
        {"top": {"pid": 20}},
        does=[{"quasi_identifiers": ["pid", "age"]}, {"keep": ["pid"]}],
    ),
    Case(
        "Make it a number in a view, such as",
        {**_GENERALIZE, "quasi_identifiers": ["age", "town"], "recode": {"town": [1]}},
        does=[{**_TOWNS, "recode": None}],
    ),
    Case(
        "Leave out its coding, or its hierarchy and step.",
        {**_GENERALIZE, **_AGE, "method": "gaa_cp", "recode": {"age": [30]}},
        does=[{"recode": None}, {"hierarchies": None}],
    ),
    Case(
        "Name bands for it instead: `recode`.",
        {"top": {"size": 180}},
        values={"recode": {"size": [160, 170, 180]}},
        needs={"recode": {"top": None}},
    ),
    Case(
        "Name whole numbers.",
        {"recode": {"age": [30.5]}},
        does=[{"recode": {"age": [30]}}],
    ),
    Case(
        "List each value once: `recode`.",
        {
            **_GENERALIZE,
            "quasi_identifiers": ["town"],
            "recode": {"town": {"A": ["a", "a"], "B": "*"}},
        },
        values={"recode": {"town": {"A": ["a"], "B": "*"}}},
        doors=_LINE,
    ),
    Case(
        "List them, or name a group for all other values",
        {**_GENERALIZE, "quasi_identifiers": ["town"], "recode": {"town": {"A": ["a"]}}},
        values={"recode": {"town": {"A": ["a"], "B": "*"}}},
        does=[{"recode": {"town": {"A": ["a", "b"], "B": ["c", "d", "e"]}}}],
    ),
    Case(
        "Group quasi-identifiers only.",
        {"keep": ["pid"], "recode": {"pid": {"A": "*"}}},
        does=[{"recode": None}, {"recode": {"pid": [10]}}],
    ),
    Case(
        "Leave it out of `top`, `bottom` and `recode`, or of",
        {"keep": ["pid"], "top": {"pid": 10}, "also_k": [["pid"]]},
        does=[{"top": None}, {"also_k": None}],
    ),
    Case(
        "Leave out its threshold, or its groups.",
        {"recode": {"age": {"A": [20], "B": "*"}}, "top": {"age": 50}, **_GENERALIZE},
        does=[{"recode": None}, {"top": None}],
    ),
    Case(
        "Leave the column out of `orders`, or out of `recode`.",
        {
            **_GENERALIZE,
            "quasi_identifiers": ["town"],
            "orders": {"town": ["a", "b", "c", "d", "e"]},
            "recode": {"town": {"A": ["a"], "B": "*"}},
        },
        leave_out=["orders", "recode"],
    ),
    Case(
        "Move its threshold, so that k or more",
        {"top": {"hole": 39}, "quasi_identifiers": ["hole"], "nulls": "category"},
        does=[{"top": {"hole": 30}}, {"top": {"hole": 50}}],
    ),
    Case(
        "Leave its kind out, or cast",
        {"quasi_identifiers": ["town"], "kinds": {"town": "numeric"}, "recoding": "representative"},
        does=[{"kinds": None}],
    ),
    Case(
        'Leave them out, use `recoding="representative"`',
        {**_AGE},
        does=[{"hierarchies": None}, {"method": "mondrian", **_GENERALIZE}],
    ),
    Case(
        "Name fewer quasi-identifiers, or choose another method.",
        {"method": "optimal_univariate"},
        does=[{"quasi_identifiers": ["age"]}, {"method": "mdav"}],
    ),
    Case(
        'Use `recoding="representative"` or `recoding="generalization"`.',
        {"quasi_identifiers": ["age", "town"], "method": "gaa_cp", "recoding": "mean"},
    ),
    Case(
        'Use `recoding="representative"`, or a method',
        {"quasi_identifiers": ["age", "town"], "recoding": "mean"},
        values={"orders": {"town": ["a", "b", "c", "d", "e"]}},
        needs={"orders": {"recoding": "median"}},
        does=[{"method": "kmember", "recoding": "generalization"}],
    ),
    Case('Use `intervals="text"`, `intervals="bounds"`', {**_GENERALIZE, "intervals": "range"}),
    Case("Known methods: {}.", {"method": "zzz"}, does=[{"method": "mdav"}], doors=_LINE),
    Case("Say how large they are: `block_size=50000`.", {"spill": "spill"}),
    Case(
        "Leave out `spill`, or that feature.",
        {"spill": "spill", "block_size": 50, "evaluate": True},
        leave_out=["spill"],
        does=[{"evaluate": None}],
        # A message: "cannot use evaluate: all values would have to be in memory".
        not_ways=["evaluate=all"],
    ),
    # Design weights.
    Case(
        "Name the column: `design_weight`.",
        {"weight_as": "mean", "quasi_identifiers": ["age"]},
        values={"design_weight": "size"},
        doors=_LINE,
    ),
    Case(
        "Leave out `spill`, or `design_weight`.",
        {
            "spill": "spill",
            "block_size": 50,
            "quasi_identifiers": ["age"],
            "design_weight": "size",
        },
        leave_out=["spill", "design_weight"],
    ),
    Case(
        "Leave out `design_weight`.",
        {
            "method": "individual_ranking",
            "guarantee": "per_attribute",
            "quasi_identifiers": ["age"],
            "design_weight": "size",
        },
        leave_out=["design_weight"],
    ),
    # Local suppression.
    Case(
        "Leave out `recoding`.",
        {"method": "local_suppression", "recoding": "mean"},
        leave_out=["recoding"],
    ),
    Case(
        "Leave out `hierarchies`, or choose a method that generalizes",
        {"method": "local_suppression", "nulls": "category", **_AGE},
        leave_out=["hierarchies"],
    ),
    Case(
        "Leave out `weights`.",
        {
            "method": "local_suppression",
            "options": {"importance": "age"},
            "weights": {"age": 2},
        },
        leave_out=["weights"],
    ),
    Case(
        "Name some of these columns, each once: {}.",
        {"method": "local_suppression", "options": {"importance": "town"}},
        does=[{"options": {"importance": "age"}}],
    ),
    Case(
        "Leave out `models`, or leave out `missing`",
        {**_ILL, **_WILDCARD, "models": [model("ill", "distinct_l", 2)]},
        leave_out=["models"],
        does=[{"options": {}}],
    ),
    Case(
        "Leave out `block_size`.",
        {**_WILDCARD, "block_size": 20},
        leave_out=["block_size"],
    ),
    Case(
        "Leave out `refine`.",
        {**_WILDCARD, "refine": "fast"},
        leave_out=["refine"],
    ),
    Case(
        "Leave out `entity`, or leave out `missing`",
        {**_WILDCARD, "entity": "town"},
        leave_out=["entity"],
        does=[{"options": {}}],
    ),
    Case(
        "Leave out `by`, or leave out `missing`",
        {**_WILDCARD, "by": ["town"]},
        leave_out=["by"],
        does=[{"options": {}}],
    ),
    Case(
        "Leave out `design_weight`, or leave out `missing`",
        {**_WILDCARD, "quasi_identifiers": ["age"], "design_weight": "size"},
        leave_out=["design_weight"],
        does=[{"options": {}}],
    ),
    Case(
        "Name quasi-identifiers only in `also_k`",
        {**_WILDCARD, "keep": ["town"], "also_k": [{"columns": ["age", "town"], "k": 5}]},
        does=[{"also_k": [{"columns": ["age"], "k": 5}]}, {"options": {}}],
        doors=("python", "job"),
    ),
    Case(
        "Leave out `{}`, or choose",
        {"method": "global_recoding", "also_k": [["age"]]},
        leave_out=["also_k"],
    ),
    Case(
        "Leave out `entity`, or choose",
        {"method": "global_recoding", "entity": "pid"},
        leave_out=["entity"],
    ),
    Case(
        "Allow this share of cells",
        {
            "method": "global_recoding",
            "options": {"cells": 0.0},
            "quasi_identifiers": ["seldom"],
            "nulls": "category",
        },
    ),
    Case(
        "Take them as categories",
        {"method": "local_suppression", "quasi_identifiers": ["huge"]},
        values={"kinds": {"huge": "nominal"}},
        doors=_LINE,
    ),
    Case(
        "Leave out `kept_columns`.",
        {"kept_columns": "client", "keep": ["town"]},
        leave_out=["kept_columns"],
    ),
    # Columns and their roles.
    Case(
        "A column is a quasi-identifier, a stratum",
        {"keep": ["age"]},
        does=[{"keep": ["town"]}],
        doors=_LINE,
    ),
    Case(
        "Name it as `entity` only, and",
        {"entity": "pid", "keep": ["pid"]},
        does=[{"keep": None}],
        doors=_LINE,
    ),
    Case(
        "Name the column that identifies the person of a row: `entity`.",
        {"entity_normalize": "casefold"},
        values={"entity": "code"},
        doors=_LINE,
    ),
    Case(
        "Also name the column in `sensitive`.",
        {"models": [model("ill", "distinct_l", 2)]},
        values={"sensitive": ["ill"]},
        doors=_LINE,
    ),
    Case("Request one as well: `evaluate`.", {"attacks": True}, values={"evaluate": True}),
    Case(
        "Name at least one column to anonymize.",
        {"quasi_identifiers": []},
        does=[{"quasi_identifiers": ["age"]}],
        doors=("python",),
    ),
    Case(
        "Name only such columns in `also_k`.", {"also_k": [["town"]]}, values={"also_k": [["age"]]}
    ),
    # Names and places.
    Case(
        'Choose another name, or replace it: `if_exists="replace"`.',
        {"output": "taken", "if_exists": "error"},
        does=[{"output": None}],
    ),
    Case(
        "Choose another name, or drop it yourself. After",
        {"output": "strange", "if_exists": "replace"},
        does=[{"output": None}],
    ),
    Case(
        'Name columns that are unique for each row: `key=["…"]`.',
        {"table": "seen"},
        values={"key": ["id"]},
    ),
    Case(
        "Write table, schema.table or",
        {"table": "a.b.c.d"},
        does=[{"table": "people"}],
        doors=_LINE,
    ),
    Case(
        "Drop the {} yourself, or choose another name.",
        {"output": "taken", "output_kind": "view", "if_exists": "replace"},
        does=[{"output": None}],
    ),
    Case(
        "Name a directory that does not exist yet (`spill`)",
        {"spill": "full", "block_size": 50},
        does=[{"spill": "spill"}],
    ),
    Case(
        "Write it in SQL over the columns of the table",
        {"where": "agee > 3"},
        does=[{"where": "age > 3"}],
    ),
    Case(
        "Correct these values, or cast the column in a view.",
        {"quasi_identifiers": ["mixed"]},
        does=[{"table": "cast_copy"}],
    ),
    # Privacy models.
    Case(
        "{}. Lower the level, {}{}{}or {}.",
        {**_ILL, "by": ["town"], "models": [model("ill", "distinct_l", 4)]},
        leave_out=["by"],
        does=[{"models": [model("ill", "distinct_l", 2)]}],
        needs={"by": {"models": [model("ill", "distinct_l", 3)]}},
    ),
    Case(
        "{}; {}. Lower the level.",
        {**_ILL, "models": [model("ill", "distinct_l", 9)]},
        does=[{"models": [model("ill", "distinct_l", 2)]}],
    ),
    Case(
        "A distance or a share is never more",
        {**_ILL, "models": [{"attribute": "ill", "kind": "t_closeness", "level": 3}]},
        does=[{"models": [model("ill", "t_closeness", 0.9)]}],
        doors=("python",),
    ),
    # What a profile refuses.
    Case(
        "Leave these columns out, or code those",
        {"profile": "hipaa"},
        does=[{"quasi_identifiers": ["size"]}, {"top": {"age": 50}, "quasi_identifiers": ["age"]}],
    ),
    Case("Use `k={}` or more.", {"profile": "ema", "quasi_identifiers": ["size"]}),
    Case(
        "Leave out `profile`, or choose a method that groups rows.",
        {
            "profile": "ema",
            "k": 11,
            "quasi_identifiers": ["size"],
            "method": "individual_ranking",
            "guarantee": "per_attribute",
        },
        leave_out=["profile"],
        does=[{"method": "mdav", "guarantee": None}],
    ),
    Case(
        "Leave out direct identifiers, and make the other",
        {"profile": "ema", "k": 11, "quasi_identifiers": ["size"], "keep": ["age"]},
        does=[{"keep": None}, {"keep": None, "quasi_identifiers": ["size", "age"]}],
    ),
    # What strict refuses.
    Case(
        "Stop copying it, release it as a pseudonym, or leave out `strict`.",
        {"table": "plain", "keep": ["email"], "strict": True},
        leave_out=["strict"],
        does=[
            {"keep": None, "strict": None},
            {"keep": None, "pseudonyms": ["email"], "pseudonym_key": "file:key", "strict": None},
        ],
    ),
    Case(
        "Name the column that identifies persons as `entity`, so",
        {"strict": True},
        values={"entity": "pid"},
        leave_out=["strict"],
        needs={"entity": {"strict": None}},
    ),
    Case(
        'Compare them without regard to spelling: `entity_normalize="casefold"`',
        {"entity": "code", "strict": True, "k": 2},
        leave_out=["strict"],
        doors=_LINE,
    ),
    # Pseudonyms.
    Case(
        "Name the columns: `pseudonyms`.",
        {"pseudonym_key": "file:key"},
        values={"pseudonyms": ["pid"]},
    ),
    Case(
        "Say where the key is, as file:PATH or env:NAME: `pseudonym_key`.",
        {"pseudonyms": ["pid"]},
        values={"pseudonym_key": "file:key"},
    ),
    Case(
        "Make one: openssl rand",
        {"pseudonyms": ["pid"], "pseudonym_key": "hush"},
        does=[{"pseudonym_key": "file:key"}],
        doors=_LINE,
    ),
    Case(
        "Leave them out, or leave out `strict`.",
        {"pseudonyms": ["pid"], "pseudonym_key": "file:key", "strict": True},
        does=[{"strict": None}, {"pseudonyms": None, "pseudonym_key": None, "strict": None}],
    ),
    # Chains.
    Case(
        "Name it: `entity`.",
        {"chain": {"name": "c", "key": "file:key"}},
        values={"entity": "id"},
        needs={"entity": {"chain": None}},
        doors=("python",),
    ),
    # Limits.
    Case(
        "Raise the limit (`memory_limit`), or use fewer quasi-identifiers.",
        {"memory_limit": 1000},
        values={"memory_limit": 10**9},
    ),
    Case(
        "Use `memory_limit={}` or more, or fewer quasi-identifiers.",
        {"memory_limit": 1000, "spill": "spill", "block_size": 50},
        does=[{"memory_limit": 10**9, "quasi_identifiers": ["age"]}],
    ),
    # Files of CSV have options that tables have not.
    Case(
        "Leave it out, or read such a file: file:people.{}.",
        {"decimal": ","},
        does=[{"decimal": None}],
    ),
    Case(
        "Leave it out, or read a folder: file:data/.",
        {"foreign_files": "links"},
        does=[{"foreign_files": None}],
    ),
    Case(
        "Set `decimal` to the decimal mark and `thousands` to",
        {"decimal": ",", "thousands": ","},
        does=[{"decimal": None, "thousands": None}],
    ),
    Case(
        "Make it a quasi-identifier.",
        {**_GENERALIZE, "recode": {"town": {"A": "*"}}},
        does=[{"quasi_identifiers": ["age", "town"], "method": "gaa_cp"}],
    ),
)
