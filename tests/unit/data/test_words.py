"""JSON as text is written in one way."""

from __future__ import annotations

import json
from pathlib import Path

import dbanon
from dbanon.data.words import json_text


def test_letters_are_no_escapes() -> None:
    value = {"größe": ["ö", 1.5, None]}
    text = json_text(value, sort_keys=True)
    assert text == '{"größe": ["ö", 1.5, null]}'
    assert json.loads(text) == value


def test_nobody_else_decides_about_escapes() -> None:
    """The package of errors is in a layer below that of words, and has its own hints."""
    package = Path(dbanon.__file__).parent
    deciding = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if "ensure_ascii" in file.read_text(encoding="utf-8")
    }
    assert deciding == {"data/words.py", "errors/base.py"}
