"""Phrases to avoid in texts for readers, and the readability of these texts.

``python -m tests.docs.words`` prints the readability of every page; ``--uses`` adds the phrases.
``--check``, a part of ``make lint``, prints what to rewrite.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import dbanon

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "dbanon"

# Phrases corrected at least twice, with replacements. Code is not checked.
INSTEAD = {
    r"\bbut for\b": "except, apart from",
    r"\b(is|are|was|were) had by\b": "… has",
    r"\bto be had\b": "available",
    r"\bsomebody\b": "someone",
    r"\banybody\b": "anyone",
    r"\bneeds not\b": "need not, does not need to",
    r"\bpassed over\b": "skipped, ignored",
    r"\bshall\b": "must, should, will",
    r"\bwhat is so\b": "what is true",
    r"(?<![#\w,] )(?<!\w)Who (?![^.?]*\?)": "Someone who, Anyone who, Whoever",
    r"\b(tell|tells|told) of (?!all)": "say, report, mention",
    r"\b(is|are|was|were|be) told\b(?! apart)": "is reported, is said, is shown",
    r"\b(say|says|said) of\b": "say about",
    r"\bstands? (in|at|beside|with|there|under|on|below)\b": "is in",
    r"\bwarns? of\b|\bwarned of\b": "warn about",
    r"\bin truth\b": "in fact, really",
    r"\b(not there|is none) is (no|none)\b": "a missing … is not",
    r"\b([Hh]e|[Hh]is|[Hh]ers?|[Ss]he)\b": "they, that person's",
}
# The maximum share of sentences with more than 30 words; short texts may have one or two.
MOST_LONG_SENTENCES = {"README": 0.03, "help": 0.03}
MOST_LONG_SENTENCES_OF_OTHERS = 0.006
FENCED = re.compile(r"^ *```.*?^ *```$|^ {4}[^\n]*$|<!--.*?-->", re.M | re.S)


class Text(NamedTuple):
    """A text that readers see, and its location."""

    location: str
    text: str


def pages() -> Iterator[Text]:
    """README and the pages of ``docs/``, without code, tables of figures and addresses."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        # It quotes them.
        if path.name == "style.md":
            continue
        yield Text(path.relative_to(ROOT).as_posix(), prose(path.read_text(encoding="utf-8")))


def prose(text: str) -> str:
    """The text of a Markdown page, with a line for each paragraph, item or row."""
    text = FENCED.sub("", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"`[^`\n]*`", "x", text).replace("**", "").replace("[", "").replace("]", "")
    # Join the lines of a paragraph or an item.
    return re.sub(r"(?<=\S)\n(?! *(?:[|#*>-]|\d+\. |\n|$)) *", " ", text)


def strings() -> Iterator[Text]:
    """Sentences, or parts of them, in the code: help, messages, hints, reports."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                text = "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "x"
                    for part in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            else:
                continue
            if id(node) not in docstrings and len(text.split()) > 2 and "SELECT" not in text:
                location = f"{path.relative_to(ROOT).as_posix()}:{getattr(node, 'lineno', 0)}"
                yield Text(location, " ".join(text.split()))


def docstrings() -> Iterator[Text]:
    """Docstrings of public names, and of errors, whose first lines are messages."""
    from dbanon import errors

    named = [(f"dbanon.{name}", getattr(dbanon, name)) for name in dbanon.__all__]
    named += [(f"dbanon.errors.{name}", value) for name, value in vars(errors).items()]
    for name, value in named:
        if inspect.isclass(value) or inspect.isfunction(value):
            if not (value.__module__ or "").startswith("dbanon"):
                continue
            yield Text(name, " ".join((inspect.getdoc(value) or "").split()))


def help_texts() -> Iterator[Text]:
    """The help of every command, as printed."""
    import click

    from dbanon.doors.cli.main import main

    def walk(command: click.Command, name: str) -> Iterator[Text]:
        yield Text(name, " ".join(inspect.cleandoc(command.help or "").split()))
        if isinstance(command, click.Group):
            for subcommand in command.commands:
                yield from walk(command.commands[subcommand], f"{name} {subcommand}")

    yield from walk(main, "dbanon")


def kinds() -> list[Text]:
    """README, the other pages, help, errors and public docstrings, each as one text."""
    documented = [*docstrings()]
    errors = [text for text in documented if text.location.startswith("dbanon.errors")]
    every = [*pages()]
    parts = {
        "README": every[:1],
        "docs": every[1:],
        "all pages": every,
        "help": [*help_texts()],
        "errors": errors,
        "public docstrings": [text for text in documented if text not in errors],
    }
    return [Text(name, "\n".join(text for _, text in texts)) for name, texts in parts.items()]


def find_uses(texts: Iterator[Text]) -> list[str]:
    """All uses of a phrase, with their location and a replacement."""
    uses = []
    for location, text in texts:
        for line in text.splitlines():
            for pattern, instead in INSTEAD.items():
                for use in re.finditer(pattern, line):
                    near = line[max(0, use.start() - 40) : use.end() + 40].strip()
                    uses.append(f"{location}: … {near} … (write: {instead})")
    return uses


class Readability(NamedTuple):
    """Readability scores: sentences, words per sentence, the share of sentences with more than 30
    words, and Flesch reading ease (higher is easier).
    """

    sentences: int
    words: float
    long: float
    ease: float


def readability(text: str) -> Readability:
    """Measure prose; tables and headings are excluded."""
    lines = [line for line in text.splitlines() if line.strip() and line.strip()[0] not in "|#!"]
    joined = "\n".join(re.sub(r"^\s*(?:[-*>]|\d+\.)\s+", "", line) for line in lines)
    sentences = [
        words
        for part in re.split(r"(?<=[.?!:])[\s)]+|\n+|;\s", joined)
        if len(words := re.findall(r"[A-Za-z][A-Za-z'’-]*", part)) > 2
    ]
    words = [word for sentence in sentences for word in sentence]
    if not words:
        return Readability(0, 0.0, 0.0, 0.0)
    mean = len(words) / len(sentences)
    ease = 206.835 - 1.015 * mean - 84.6 * sum(map(_syllables, words)) / len(words)
    long = sum(len(sentence) > 30 for sentence in sentences) / len(sentences)
    return Readability(len(sentences), mean, long, ease)


def _syllables(word: str) -> int:
    word = word.casefold()
    groups = len(re.findall(r"[aeiouy]+", word))
    silent = word.endswith("e") and not word.endswith(("le", "ee")) and groups > 1
    return max(1, groups - silent)


def problems() -> list[str]:
    """All uses of a phrase, and all kinds of text with too many long sentences."""
    texts = [*pages(), *strings(), *docstrings(), *help_texts()]
    lines = find_uses(iter(texts))
    for kind, text in kinds():
        measured = readability(text)
        most = MOST_LONG_SENTENCES.get(kind, MOST_LONG_SENTENCES_OF_OTHERS)
        if not measured.sentences:
            lines.append(f"{kind}: no sentence was read")
        elif measured.long > most:
            lines.append(
                f"{kind}: {measured.long:.1%} of the sentences have more than 30 words;"
                f" {most:.1%} are allowed"
            )
    return lines


def print_readability() -> None:
    """Print the scores of every page and kind of text."""
    print(f"{'page':46} sentences  words  >30 words  ease")
    for location, text in [*pages(), *kinds()]:
        scores = readability(text)
        words = f"{scores.words:6.1f} {scores.long:9.1%}"
        print(f"{location:46} {scores.sentences:9} {words} {scores.ease:5.1f}")


if __name__ == "__main__":
    import sys

    if "--check" in sys.argv:
        rewrite = problems()
        sys.exit("\n".join(rewrite) if rewrite else 0)
    if "--uses" in sys.argv:
        for use in problems():
            print(use)
    print_readability()
