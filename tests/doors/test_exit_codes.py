"""Exit codes mean the same for every error: 3 is a refusal for privacy, and nothing else."""

from __future__ import annotations

import inspect

import pytest

from dbanon import errors

ALL = sorted(
    {e for e in vars(errors).values() if inspect.isclass(e) and issubclass(e, errors.DbanonError)}
    - {errors.DbanonError},
    key=lambda error: error.code,
)


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.code)
def test_each_code_has_one_meaning(error: type[errors.DbanonError]) -> None:
    assert (error.exit_code == 3) == issubclass(error, errors.PrivacyRefusal)
    has_state = issubclass(error, errors.HierarchyBroken)  # It kept its SQLSTATE from 0.1.0.
    assert error.sqlstate.startswith("ZK") == (has_state or error.exit_code in {3, 6})
    assert (error.exit_code == 4) == issubclass(error, errors.DatabaseFailure)
    assert (error.exit_code == 9) == (error.sqlstate == "54000")
    assert (error.exit_code == 10) == (error is errors.OutcomeUnknown)
    assert error.exit_code in {2, 3, 4, 5, 6, 7, 8, 9, 10}
