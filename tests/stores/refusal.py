"""Expecting an error, and that it left nothing behind."""

from __future__ import annotations

from typing import Any

import pytest

import dbanon
from dbanon import errors
from tests.stores.databases import (
    Database,
)

EXIT_CODES = {
    errors.UsageError: 2,
    errors.PrivacyRefusal: 3,
    errors.DatabaseFailure: 4,
    errors.InsufficientRights: 5,
    errors.TellingColumnRefused: 6,
    errors.LinkingColumnRefused: 6,
    errors.EntitySpellingsRefused: 6,
    errors.KeptIdentifierRefused: 6,
    errors.TooFewPersons: 6,
    errors.MemoryLimit: 9,
}


def refuse(
    database: Database, error: type[errors.DbanonError], message: str = "", /, **options: Any
) -> errors.DbanonError:
    """Run, expect the error, and check its base class and that nothing was left behind."""
    before = database.state()
    with pytest.raises(error) as caught:
        database.anonymize(**({"quasi_identifiers": ["age", "height"]} | options))
    assert type(caught.value) is error
    assert message in str(caught.value)
    assert caught.value.exit_code == next(
        code for family, code in EXIT_CODES.items() if issubclass(error, family)
    )
    # The cause may quote a value.
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert database.state() == before
    return caught.value


def anonymize(url: Any) -> None:
    dbanon.anonymize(url, table="people", quasi_identifiers=["x"], k=3, output="release.people")
