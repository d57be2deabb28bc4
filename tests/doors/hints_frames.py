"""Hints of frames, arrays and the Python functions that take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import dbanon
from tests.doors.hint_steps import (
    ARRAY,
    FEW,
    FRAME,
    MEASURES,
    N,
    Steps,
    classes,
    column,
    days,
    evaluate,
    frame,
    noisy,
    release,
    tree,
)
from tests.doors.hints_analyses import ANALYSES

FLAGS = FRAME.assign(flag=FRAME.index % 2 == 0)
EMPTY = FRAME.assign(empty=pd.array([None] * N, "Int64"))
_NOBODY: Any = [None, *["a", "b", "c"] * 13]


FRAMES = (
    Steps(
        "Extract the values that you need into separate",
        column([[1, 2]] * N),
        [column([1, 2] * (N // 2))],
    ),
    Steps(
        "Make them text: frame[",
        column([b"a", b"b"] * (N // 2)),
        [column(pd.Series([b"a", b"b"] * (N // 2)).map(bytes.hex, na_action="ignore"))],
    ),
    Steps(
        "Pass the real and imaginary parts as separate columns.",
        column([1j] * N),
        [column(np.real([1j] * N).tolist())],
    ),
    Steps(
        "Use float32 or float64.",
        column(np.ones(N, np.float16)),
        [column(np.ones(N, np.float32)), column(np.ones(N, np.float64))],
    ),
    Steps(
        "Make it a text in a view, or generalize it by a hierarchy",
        frame(FLAGS, method="gaa_cp", quasi_identifiers=["flag"], recode={"flag": {"A": "*"}}),
        [
            frame(
                FLAGS.astype({"flag": str}),
                method="gaa_cp",
                quasi_identifiers=["flag"],
                recode={"flag": {"A": "*"}},
            ),
            frame(
                FLAGS,
                method="gaa_cp",
                quasi_identifiers=["flag"],
                hierarchies={"flag": {"tree": {"*": ["True", "False"]}}},
            ),
        ],
    ),
    Steps(
        "Name a number in `top` and `bottom`, or leave the column out of them.",
        frame(EMPTY, keep=["empty"], top={"empty": "p90"}),
        [frame(EMPTY, keep=["empty"], top={"empty": 9}), frame(EMPTY, keep=["empty"])],
    ),
    Steps(
        "Name them first: frame.columns",
        frame(FRAME.set_axis([0, 1, 2, 3], axis=1), quasi_identifiers=[0]),
        [frame(FRAME.set_axis(list("abcd"), axis=1), quasi_identifiers=["a"])],
    ),
    Steps(
        "Take the usual order, which is random",
        frame(rows="input", strict=True),
        [frame(strict=True), frame(rows="input")],
    ),
    Steps(
        "Write series.to_frame().",
        frame(FRAME.age, quasi_identifiers=["age"]),
        [frame(FRAME.age.to_frame(), quasi_identifiers=["age"])],
    ),
    Steps(
        "Every column must be a list",
        frame({"age": [1, 2], "size": [3]}),
        [frame({"age": [1, 2] * 9, "size": [3] * 18})],
    ),
    Steps(
        "Exclude these rows in a view, or set them to NULL",
        frame(FRAME.assign(age=np.inf)),
        [frame(FRAME.assign(age=np.where(FRAME.index < 4, np.nan, FRAME.age)), nulls="category")],
    ),
    Steps(
        "The person of these rows is unknown",
        frame(FRAME.assign(p=_NOBODY), entity="p", k=2),
        [
            frame(FRAME.assign(p=_NOBODY).dropna(), entity="p", k=2),
            frame(FRAME.assign(p=["z"] + ["a", "b", "c"] * 13), entity="p", k=2),
        ],
    ),
    Steps("Write `{}=[", frame(quasi_identifiers="age"), [frame(quasi_identifiers=["age"])]),
    # Arrays.
    Steps(
        "A single attribute is data.reshape(-1, 1).",
        classes(ARRAY[:, 0]),
        [classes(ARRAY[:, 0].reshape(-1, 1))],
    ),
    Steps(
        "Pass the real and imaginary parts as separate columns.",
        classes(ARRAY * 1j),
        [classes(np.column_stack([(ARRAY * 1j).real, (ARRAY * 1j).imag]))],
    ),
    Steps(
        "Columns that are not numeric need a table",
        classes([["a", "b"]] * 9),
        [
            classes(
                pd.DataFrame([["a", "b"]] * 9, columns=["a", "b"]),
                method="kmember",
                recoding="representative",
            )
        ],
    ),
    Steps(
        "Leave out `standardize`.",
        classes(ARRAY, method="individual_ranking", standardize="mahalanobis"),
        [classes(ARRAY, method="individual_ranking")],
    ),
    Steps(
        "Leave out `missing`. Releases have it.",
        classes(ARRAY, method="local_suppression", missing="wildcard"),
        [classes(ARRAY, method="local_suppression")],
    ),
    Steps(
        "Pass the result of dbanon.partition, or its labels.",
        evaluate(ARRAY, released=ARRAY, quasi_identifiers=None, classes="x"),
        [
            evaluate(
                ARRAY, released=ARRAY * 0, quasi_identifiers=None, classes=np.zeros(N, np.int32)
            )
        ],
    ),
    Steps(
        "dbanon.synthesize and dbanon.anonymize have it",
        classes(ARRAY, method="dp_ranks"),
        [noisy()],
    ),
    # Evaluations.
    Steps(
        "Pass the `report` of the same call",
        evaluate(),
        [
            evaluate(key="id"),
            evaluate(report="report"),
            lambda _: dbanon.evaluate(
                FRAME, release(rows="input")[0], quasi_identifiers=["age", "size"]
            ),
        ],
    ),
    Steps(
        "Rows are paired by their positions; name a `key`",
        evaluate(released=FRAME[:30]),
        [evaluate(released=FRAME[:30], key="id")],
    ),
    Steps(
        "Both keys must have the same type",
        evaluate(released=FRAME.assign(id=FRAME.id + 99), key="id"),
        [evaluate(key="id")],
    ),
    Steps(
        "Leave `classes` out: then rows with equal released values",
        evaluate(ARRAY, released=ARRAY, quasi_identifiers=None, classes=np.zeros(N, np.int32)),
        [evaluate(ARRAY, released=ARRAY, quasi_identifiers=None)],
    ),
    Steps(
        "Pass both frames as they were then, or",
        evaluate(FRAME[::-1], report="report"),
        [evaluate(report="report"), evaluate(FRAME[::-1], key="id")],
    ),
    Steps(
        "Name columns that are compared, as in",
        lambda _: dbanon.attack(
            FRAME, release()[0], quasi_identifiers=["age", "size"], linked=[["age"]], control=FRAME
        ),
        [
            lambda _: dbanon.attack(
                FRAME,
                release()[0],
                quasi_identifiers=["age", "size"],
                linked=[["age"], ["size"]],
                control=FRAME,
            )
        ],
    ),
    Steps(
        "Give a database with a table, or a data frame alone.",
        lambda _: dbanon.advise(FRAME, "people"),
        [
            lambda _: dbanon.advise(MEASURES, **FEW),
            lambda w: dbanon.advise(w.url, "plain", **FEW),
        ],
    ),
    Steps(
        "If others may know it about a person, name it only as a quasi-identifier.",
        lambda w: dbanon.advise(w.url, "plain", quasi_identifiers=["age"], sensitive=["age"]),
        [lambda w: dbanon.advise(w.url, "plain", quasi_identifiers=["age"], **FEW)],
    ),
    Steps(
        "Leave it out of `quasi_identifiers`, or state its order",
        lambda w: dbanon.certificate(
            w.url, 4, table="people", quasi_identifiers=["age", "town"], seconds=0.1
        ),
        [
            lambda w: dbanon.certificate(
                w.url, 4, table="people", quasi_identifiers=["age"], seconds=0.1
            ),
            lambda w: dbanon.certificate(
                w.url,
                4,
                table="people",
                quasi_identifiers=["age", "town"],
                seconds=0.1,
                orders={"town": ["a", "b", "c", "d", "e"]},
            ),
        ],
    ),
    # Hierarchies.
    Steps(
        'Write ["week"] or',
        tree({"dates": ["week", "month"]}),
        [days({"dates": ["week"]}), days({"dates": ["day", "week"]})],
    ),
    Steps(
        "A stored hierarchy is written name:NAME",
        tree("towns"),
        [lambda w: dbanon.load_hierarchy(w.url, "name:towns")],
    ),
    Steps(
        "Give each value a row of its own",
        tree({"tree": {"*": ["a", "b"]}}),
        [tree({"tree": {"*": ["a", "b", "c"]}})],
    ),
    Steps(
        "Load it first, and give it as a Hierarchy.",
        tree({"name": "towns"}),
        [lambda w: tree(dbanon.load_hierarchy(w.url, "name:towns"))(w)],
    ),
    Steps(
        "Choose another name, or replace it.",
        lambda w: dbanon.store_hierarchy(w.url, "towns", {"tree": {"*": ["a"]}}),
        [
            lambda w: dbanon.store_hierarchy(w.url, w.new(), {"tree": {"*": ["a"]}}),
            lambda w: dbanon.store_hierarchy(
                w.url, "towns", {"tree": {"*": ["a", "b", "c"]}}, replace=True
            ),
        ],
    ),
    Steps("Known keys: {}.", tree({"mask": [1], "zzz": 2}), [tree({"mask": [1]})]),
    # Synthetic rows.
    Steps("Create one budget for all releases of these rows", noisy(budget=None), [noisy()]),
    Steps(
        "Leave both out, or use method dp_marginals",
        noisy(delta=1e-9),
        [
            noisy(),
            noisy(
                method="dp_marginals",
                budget=dbanon.Budget(99.0, delta=1e-6),
                delta=1e-9,
                accounting="zcdp",
            ),
        ],
    ),
    Steps("Make one: numpy.array(...)", noisy([1, 2]), [noisy(MEASURES)]),
    Steps("{} Its options: {}.", noisy(margin="bins"), [noisy()]),
    Steps("Known: {}.", noisy(method="zzz"), [noisy()]),
    Steps(
        "Use method dp_ranks, or",
        lambda _: dbanon.synthesize(ARRAY, method="dcmdp", k=4, epsilon=1.0),
        [
            noisy(),
            lambda _: dbanon.synthesize(
                ARRAY, method="dcmdp", k=4, epsilon=1.0, guarantee="as_published"
            ),
        ],
    ),
    Steps("What was released stays released", noisy(budget=dbanon.Budget(0.5)), [noisy()]),
    Steps("One of these suffices: `epsilon`", noisy(epsilon=0.3), [noisy()]),
    *ANALYSES,
)
