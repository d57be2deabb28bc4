"""Hints of chains, runs, evaluations and synthetic rows are followed literally."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from tests.doors import (  # noqa: F401
    hints_chains,
    hints_populations,
    hints_runs,
    hints_synthesis,
)
from tests.doors.hint_list import text_of
from tests.doors.hint_steps import hint_of
from tests.doors.run_steps import CASES, Case, Runs
from tests.doors.test_hints_followed import pattern


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Runs]:
    """A folder for the databases of the cases."""
    path = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        yield Runs(path, request.getfixturevalue)


def follow(case: Case, world: Runs) -> None:
    """Raise the error, compare its hint with the source's, and take every way out."""
    acts = case.acts(world)
    refused = next(acts)
    hint = hint_of(lambda _: refused(), world)
    text = case.hint if case.is_constant else text_of(case.hint)
    assert pattern(text).search(hint), (text, hint)
    act, ways = acts.send(hint), 0
    while act is not None:
        act()
        act, ways = next(acts, None), ways + 1
    assert ways


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.acts.__name__)
def test_a_hint_can_be_followed(case: Case, runs: Runs) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        follow(case, runs)
