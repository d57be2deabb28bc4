"""No text for readers uses the phrases that were corrected; the lists and measures work."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.docs.words import (
    INSTEAD,
    ROOT,
    Text,
    docstrings,
    found,
    help_texts,
    kinds,
    pages,
    prose,
    readability,
    strings,
)


@pytest.mark.parametrize("texts", [pages, strings, docstrings, help_texts])
def test_no_phrase_is_used_that_was_corrected(texts: Callable[[], Iterator[Text]]) -> None:
    every = [*texts()]
    assert len(every) > 25
    uses = found(iter(every))
    assert uses == [], "\n".join(uses)


@pytest.mark.parametrize("text", [
    "All columns but for one.", "It is had by somebody.", "Who knows it, finds the row.",
    "Names are passed over.", "Somebody needs not know.", "What is told, stands in the report.",
    "It warns of that.", "The report says of a column what it is.", "A lock was not to be had.",
])  # fmt: skip
def test_a_phrase_is_found(text: str) -> None:
    text = text[0].lower() + text[1:] if not text.startswith("Who") else text
    assert found(iter([Text("here", text)]))


@pytest.mark.parametrize("text", [
    "Who may read what?", "## Who runs chains", "Rows that are told apart.", "anyone who knows",
    "This warns about it, and says who.",
])  # fmt: skip
def test_other_sentences_are_left_alone(text: str) -> None:
    assert found(iter([Text("here", text)])) == []


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


def test_sentences_stay_short() -> None:
    """In shares of sentences of more than 30 words, with room for one or two."""
    most = {"README": 0.03, "help": 0.03}
    found = {place: readability(text) for place, text in kinds()}
    assert all(one.sentences > 20 for one in found.values())
    long = {place: one.long for place, one in found.items() if one.long > most.get(place, 0.006)}
    assert long == {}, f"See `python -m tests.docs.words`: {long}"


def test_the_style_page_lists_ten_examples_and_the_module() -> None:
    page = (ROOT / "docs" / "style.md").read_text(encoding="utf-8")
    examples = page.partition("## Before and after")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!instead|---)", examples, re.M)
    assert len(rows) == 10
    assert "tests/docs/words.py" in page
    assert all(re.compile(pattern) for pattern in INSTEAD)
