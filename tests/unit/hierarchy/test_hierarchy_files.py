"""Hierarchy files found in practice, and values that are also inner labels."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import HierarchyBroken, InvalidParameter
from dbanon.hierarchy.spec import parse
from dbanon.hierarchy.tree import Hierarchy

CITIES = [["Bonn", "NRW", "*"], ["Cologne", "NRW", "*"], ["Munich", "Bavaria", "*"]]
ICD = [
    ["E11", "E11", "E1*", "*"],
    ["E11.9", "E11", "E1*", "*"],
    ["E10", "E10", "E1*", "*"],
    ["E10.1", "E10", "E1*", "*"],
    ["J45", "J45", "J4*", "*"],
]


@pytest.mark.parametrize("header", [[], ["city", "land", "all"], ["0", "1", "2"]])
@pytest.mark.parametrize("separator", [";", ",", "\t", "|", ", "])
def test_any_separator_with_or_without_a_header(
    tmp_path: Path, separator: str, header: list[str]
) -> None:
    rows = [header] * bool(header) + CITIES
    file = tmp_path / "tree.csv"
    file.write_text("".join(separator.join(row) + "\n" for row in rows))
    assert Hierarchy.load(file) == Hierarchy.from_levels(CITIES)


def test_a_comma_may_belong_to_a_label() -> None:
    tree = Hierarchy.from_csv("Smith, J;S;*\nSato;S;*\n")
    assert tree.path("Smith, J") == ("Smith, J", "S", "*")
    assert Hierarchy.from_csv('"Smith, J",S,*\nSato,S,*\n').path("Sato") == ("Sato", "S", "*")
    assert Hierarchy.from_csv("a,b;*\n").path("a,b") == ("a,b", "*")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Bonn;NRW;+\nCologne;NRW;*\nMunich;Bavaria;*\n", 2),
        ("city;land;all\nBonn;NRW;*\nCologne;Hesse;*\nBonn;Hesse;*\n", 4),
        ("a;*\nb;+\n", 2),
    ],
)
def test_a_line_that_shares_labels_is_no_header(text: str, line: int) -> None:
    with pytest.raises(HierarchyBroken) as caught:
        Hierarchy.from_csv(text)
    assert line in [problem.line for problem in caught.value.problems]


def test_a_value_may_be_a_label_above_others() -> None:
    tree = Hierarchy.from_levels(ICD)
    assert sorted(tree.positions) == ["E10", "E10.1", "E11", "E11.9", "J45"]
    assert tree.is_balanced is False
    assert tree.leaf_depths.tolist() == [3, 3, 3, 3, 2]
    at = np.array([tree.positions["E11"], tree.positions["E11.9"], tree.positions["J45"]])
    # Readers cannot distinguish the value E11 from the label E11, so both count as one.
    assert tree.common_nodes(at, at).tolist() == [tree.node(x) for x in ("E11", "E11.9", "J45")]
    np.testing.assert_allclose(tree.loss(at, tree.common_nodes(at, at)), [1 / 3, 0, 0])
    for level, labels in enumerate((["E11", "E11.9"], ["E11", "E11"], ["E1*", "E1*"])):
        assert [tree.labels[node] for node in tree.nodes_at_level(level)[at[:2]]] == labels
    forms = [
        Hierarchy.from_csv(tree.to_csv()),
        Hierarchy.from_levels(tree.to_levels()),
        Hierarchy.from_parents(tree.to_pairs()),
        Hierarchy.from_nested(
            {"*": {"E1*": {"E11": ["E11", "E11.9"], "E10": ["E10", "E10.1"]}, "J4*": ["J45"]}}
        ),
    ]
    assert all(form == tree for form in forms)


def test_without_a_row_of_its_own_it_is_refused_with_the_way_on() -> None:
    tree = Hierarchy.from_levels(ICD[1:2] + ICD[3:])
    with pytest.raises(HierarchyBroken, match="label above others") as caught:
        tree.encode(["E11"], "icd")
    assert "a row of its own" in str(caught.value.hint)


@pytest.mark.parametrize("method", ["gaa_cp", "mondrian", "full_domain"])
def test_released_as_where_it_had_another_name(method: str) -> None:
    """Compare with renaming the value below the inner label, and renaming it back afterwards."""
    draw = random.Random(7)
    codes = [draw.choice([row[0] for row in ICD]) for _ in range(60)]
    renamed = [
        [f"{row[0]} itself" if row[0] in ("E11", "E10") else row[0], *row[1:]] for row in ICD
    ]
    names = dict(zip((row[0] for row in ICD), (row[0] for row in renamed), strict=True))
    options: Any = {"quasi_identifiers": ["icd"], "k": 4, "method": method, "seed": 3}
    released, report = dbanon.anonymize_frame(
        pd.DataFrame({"icd": codes}), hierarchies={"icd": Hierarchy.from_levels(ICD)}, **options
    )
    other, _ = dbanon.anonymize_frame(
        pd.DataFrame({"icd": [names[code] for code in codes]}),
        hierarchies={"icd": Hierarchy.from_levels(renamed)},
        **options,
    )
    assert sorted(released["icd"]) == sorted(
        label.removesuffix(" itself") for label in other["icd"]
    )
    assert released["icd"].value_counts().min() >= 4
    assert report.k_achieved == released["icd"].value_counts().min()


NUMBERS = {
    "levels": {"levels": [[0.5, "low", "*"], [1, "low", "*"], [2.25, "high", "*"]]},
    "text": {"levels": [["0.50", "low", "*"], ["1.0", "low", "*"], ["2.250", "high", "*"]]},
    "tree": {"tree": {"*": {"low": [0.5, 1], "high": ["2.25"]}}},
    "ordered": {"ordered": [0.5, 1, 2.25], "fanout": 2},
    "grouped": {"order": [0.5, "1.00", 2.25], "grouped": [2, 1]},
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_are_found_however_they_are_written(kind: str) -> None:
    frame = pd.DataFrame({"dose": [0.5, 1.0, 2.25] * 4})
    released, _ = dbanon.anonymize_frame(
        frame,
        quasi_identifiers=["dose"],
        k=8,
        method="gaa_cp",
        hierarchies={"dose": NUMBERS[kind]},
        max_suppression=0.5,
    )
    assert len(set(released["dose"])) <= 2


def test_two_spellings_of_one_number_stay_distinct() -> None:
    tree = Hierarchy.from_levels([["1", "a", "*"], ["1.0", "b", "*"], ["2", "b", "*"]])
    assert 1 not in tree.label_of_number
    assert tree.label_of_number[2] == "2"  # type: ignore[index]


@pytest.mark.parametrize("source", [{"ordered": [True]}, {"levels": [[None, "*"]]}])
def test_invalid_labels_are_refused(source: Any) -> None:
    with pytest.raises(InvalidParameter, match="must be"):
        parse(source, files=False)


@pytest.mark.parametrize(
    "tree",
    [
        {"*": {"north": "Kiel"}},
        {"*": "Kiel"},
        {"*": {"north": 5}},
        {"*": {"north": None}},
        {"*": {"north": [["Kiel"]]}},
        {"*": {"north": [True]}},
        ["Kiel", "Bremen"],
        [["Kiel"]],
        "Kiel",
        5,
    ],
    ids=str,
)
def test_json_of_another_form_is_refused(tree: Any, tmp_path: Path) -> None:
    """In a file as in an option: a text where a list belongs never becomes its letters."""
    path = tmp_path / "tree.json"
    path.write_text(json.dumps(tree))
    for source in ({"tree": tree}, str(path)):
        with pytest.raises(InvalidParameter):
            parse(source, files=True)


def test_text_is_no_branch() -> None:
    with pytest.raises(TypeError, match="not text"):
        Hierarchy.from_nested({"*": {"north": "Kiel"}})
