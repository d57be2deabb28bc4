"""Job files that are refused for a column."""

from __future__ import annotations

from tests.doors.jobs.wrong_file import (
    AGE,
    HEIGHT,
    JOB,
    RIGHT,
    SECRET,
    SITE,
    Wrong,
    with_age,
    with_sensitive,
)

WRONG_COLUMNS = [
    Wrong(
        "role",
        "{role: drop}",
        f"{{role: {SECRET}}}",
        f"{JOB}.columns.id",
        "role must be one of identifier, quasi_identifier",
    ),
    Wrong("no role", "{role: drop}", "{}", f"{JOB}.columns.id", "role is missing"),
    Wrong(
        "role as text",
        "id: {role: drop}",
        f"id: {SECRET}",
        f"{JOB}.columns.id",
        "keys with values",
    ),
    Wrong(
        "keep without a reason",
        ", reason: a public list",
        "",
        f"{JOB}.columns.site.reason",
        "is missing",
    ),
    Wrong(
        "keep with an empty reason",
        "reason: a public list",
        "reason: ' '",
        f"{JOB}.columns.site.reason",
        "must not be empty",
    ),
    Wrong(
        "no quasi-identifier",
        f"{AGE}\n{HEIGHT}",
        "age: {role: drop}\n",
        JOB,
        "columns must have a quasi_identifier",
        10,
    ),
    Wrong(
        "columns as a list",
        RIGHT[RIGHT.index("      id:") : RIGHT.index("    output:")],
        f"      - {SECRET}\n",
        f"{JOB}.columns",
        "keys with values",
        14,
    ),
    Wrong(
        "weight as text", "weight: 2", f"weight: {SECRET}", f"{JOB}.columns.age.weight", "a number"
    ),
    Wrong("weight below 0", "weight: 2", "weight: -2", f"{JOB}.columns.age.weight", "0 or more"),
    Wrong("step of 0", "weight: 2", "step: 0", f"{JOB}.columns.age.step", "above 0"),
    Wrong("order as text", AGE, with_age(f"order: {SECRET}"), f"{JOB}.columns.age.order", "a list"),
    Wrong(
        "two hierarchies",
        AGE,
        with_age(f"hierarchy: {{mask: [1], table: {SECRET}}}"),
        f"{JOB}.columns.age.hierarchy",
        "exactly one",
    ),
    Wrong(
        "no hierarchy",
        AGE,
        with_age(f"hierarchy: {{maks: {SECRET}}}"),
        f"{JOB}.columns.age.hierarchy",
        "exactly one",
    ),
    Wrong(
        "intervals as text",
        AGE,
        with_age(f"hierarchy: {{intervals: {SECRET}}}"),
        f"{JOB}.columns.age.hierarchy",
        "list of widths",
    ),
    Wrong(
        "a key of another hierarchy",
        AGE,
        with_age("hierarchy: {mask: [1], origin: 3}"),
        f"{JOB}.columns.age.hierarchy",
        "allows only the keys",
    ),
    Wrong(
        "hierarchy of no file",
        AGE,
        with_age("hierarchy: {file: nowhere.csv}"),
        f"{JOB}.columns.age.hierarchy",
        "",
    ),
    Wrong(
        "model",
        SITE,
        with_sensitive(f"{{kind: {SECRET}, level: 2}}"),
        f"{JOB}.columns.site.models.0.kind",
        "must be 'distinct_l'",
    ),
    Wrong(
        "level",
        SITE,
        with_sensitive(f"{{kind: distinct_l, level: {SECRET}}}"),
        f"{JOB}.columns.site.models.0.level",
        "a number",
    ),
    Wrong(
        "level that is missing",
        SITE,
        with_sensitive("{kind: distinct_l}"),
        f"{JOB}.columns.site.models.0.level",
        "is missing",
    ),
    Wrong(
        "key of a model",
        SITE,
        with_sensitive("{kind: distinct_l, level: 2, levl: 3}"),
        f"{JOB}.columns.site.models.0.levl",
        'did you mean "level"',
    ),
    Wrong(
        "distance",
        SITE,
        with_sensitive(f"{{kind: t_closeness, level: 0.2, distance: {SECRET}}}"),
        f"{JOB}.columns.site.models.0.distance",
        "equal, ordered",
    ),
    Wrong(
        "entity that is no identifier", "entity: name", "entity: site", JOB, "entity must be", 10
    ),
    Wrong("entity without a role", "entity: name", f"entity: {SECRET}", JOB, "entity must be", 10),
    Wrong("key without a role", "entity: name", f"key: [{SECRET}]", JOB, "key must name", 10),
]
