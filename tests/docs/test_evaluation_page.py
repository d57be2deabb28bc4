"""The page on evaluation names all measures, and only existing ones."""

import re
from pathlib import Path

import pytest

from dbanon.extensions.attacks import membership
from dbanon.extensions.attacks.catalogue import ATTACKS
from dbanon.measures.catalogue import MEASURES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_is_in_a_table(name: str) -> None:
    [symbol] = re.findall(rf"^\| `{name}` \|\s*(.*?)\s*\|", PAGE, re.M)
    assert symbol == MEASURES[name].symbol


def test_no_other_measure_is_in_a_table() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.M)) == {
        *MEASURES,
        *ATTACKS,
        membership.NAME,
    }
