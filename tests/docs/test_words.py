"""The check of wording in ``make lint`` detects phrases and measures sentences."""

from __future__ import annotations

import pytest

from tests.docs import words
from tests.docs.words import (
    Text,
    docstrings,
    find_uses,
    help_texts,
    pages,
    prose,
    readability,
    strings,
)


@pytest.mark.parametrize(
    "text",
    [
        "All columns but for one.",
        "It is had by somebody.",
        "Who knows it, finds the row.",
        "Names are passed over.",
        "Somebody needs not know.",
        "What is told, stands in the report.",
        "It warns of that.",
        "The report says of a column what it is.",
        "A lock was not to be had.",
    ],
)
def test_phrases_are_detected(text: str) -> None:
    text = text[0].lower() + text[1:] if not text.startswith("Who") else text
    assert find_uses(iter([Text("here", text)]))


@pytest.mark.parametrize(
    "text",
    [
        "Who may read what?",
        "## Who runs chains",
        "Rows that are told apart.",
        "anyone who knows",
        "This warns about it, and says who.",
    ],
)
def test_other_sentences_are_left_alone(text: str) -> None:
    assert find_uses(iter([Text("here", text)])) == []


def test_code_is_no_prose() -> None:
    code = "```python\nsomebody\n```\n\n    somebody\n"
    text = f"A `somebody` in\ncode.\n\n{code}\n- an [item](but)\n  of it\n"
    assert prose(text).split("\n")[0] == "A x in code."
    assert "somebody" not in prose(text)
    assert "- an item of it" in prose(text)


def test_shorter_sentences_and_words_are_easier() -> None:
    easy = readability("The cat sat. The dog ran off. We saw it go.")
    hard = readability(
        "Notwithstanding considerable methodological heterogeneity, anonymization practitioners"
        " overwhelmingly prioritize confidentiality considerations above analytical utility."
    )
    assert (easy.sentences, hard.sentences) == (3, 1)
    assert easy.ease > 90 > 0 > hard.ease
    assert easy.words < hard.words


def test_the_check_reads_every_kind_of_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checking no texts would never fail."""
    for texts in (pages, strings, docstrings, help_texts):
        assert len([*texts()]) > 25
    monkeypatch.setattr(words, "INSTEAD", {r"\bthe\b": "another word"})
    monkeypatch.setattr(words, "MOST_LONG_SENTENCES_OF_OTHERS", -1.0)
    lines = words.problems()
    for location in (
        "README.md: ",
        "docs/cli.md: ",
        "dbanon/doors/cli/main.py:",
        "dbanon.errors.",
        "dbanon verify: ",
        "errors: 0.0% of the sentences",
    ):
        assert any(line.startswith(location) for line in lines), location
