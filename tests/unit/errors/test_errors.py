from __future__ import annotations

import inspect
import re

import pytest

from dbanon import errors
from dbanon.errors import DbanonError, is_out_of_memory, nearest_names

CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, DbanonError)
]


def test_every_class_has_a_code_of_its_own() -> None:
    codes = [cls.__dict__["code"] for cls in CLASSES]
    assert len(set(codes)) == len(codes) > 20
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in codes)


@pytest.mark.parametrize("cls", CLASSES)
def test_every_class_has_an_exit_code_and_a_sqlstate(cls: type[DbanonError]) -> None:
    assert cls.exit_code in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    assert re.fullmatch(r"[0-9A-Z]{5}", cls.sqlstate)
    # A class of success, warning or "no data" is no error to PostgreSQL.
    assert cls.sqlstate[:2] not in ("00", "01", "02")
    families = {base.exit_code for base in cls.__mro__[1:-2] if issubclass(base, DbanonError)}
    assert families <= {1, cls.exit_code}


@pytest.mark.parametrize("cls", CLASSES)
def test_the_docstring_is_the_message(cls: type[DbanonError]) -> None:
    assert str(cls()) == (cls.__doc__ or "").partition("\n")[0]
    assert cls().message.endswith(".")


def test_text_and_plain_values() -> None:
    error = errors.TableNotFound("There is none.", detail="d", hint="h")
    assert str(error) == "There is none.\nDetail: d\nHint: h"
    assert error.to_dict() == {
        "code": "table_not_found",
        "sqlstate": "42P01",
        "exit_code": 2,
        "message": "There is none.",
        "detail": "d",
        "hint": "h",
    }


def test_nearest_names() -> None:
    assert nearest_names("Poeple", ["people", "persons", "x"]) == 'Did you mean "people"?'
    assert nearest_names("age", ["AGE", "Age"]) is not None
    assert nearest_names("zzz", ["people"]) is None
    assert nearest_names("x", []) is None


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (MemoryError(), True),
        (ImportError("x.so: failed to map segment from shared object"), True),
        (ImportError("x.so: cannot allocate memory in static TLS block"), True),
        (ImportError("No module named 'x'"), False),
        (ValueError("cannot allocate"), False),
    ],
)
def test_what_lacks_memory(error: Exception, lacks: bool) -> None:
    """A library that finds no room when it is loaded says so as an ImportError."""
    assert is_out_of_memory(error) is lacks
