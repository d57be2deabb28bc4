"""Redaction of credentials in texts before they are shown or logged.

It errs on the side of hiding: a harmless value after a name such as ``token=`` is also hidden.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

HIDDEN = "***"

# Parts of names whose values are secrets, as S3, Google Cloud Storage, Azure, DuckDB, libpq,
# PyMySQL, ODBC and web services spell them; compared without regard to case, _, - and dots.
_SECRET_PARTS = re.compile(
    "pass(?!through|ed)|pwd|secret|token|signature|credential|accesskey|accountkey|sharedkey"
    "|apikey|privatekey|encryptionkey|keyid|connectionstring|authorization|odbcconnect|assertion"
)
_SECRET_NAMES = frozenset(("sig", "auth", "sas"))
# Secrets in the query of a URL only: in a message, `key="id"` names a column.
_SECRET_ARGUMENTS = frozenset(("key", "hexkey", "textkey", "accessid", "googleaccessid"))

_LETTER = r"[\w.%\-\[\]]"
_QUOTED = r"'(?:\\.|''|[^'\\])*'|\"(?:\\.|\"\"|[^\"\\])*\"|\{[^{}]*\}"
# An unescaped password may hold & or ;, so a value ends only where the next name begins.
_BARE = rf"(?:(?![&;,]{_LETTER}+\s*=)\S)+"
_ASSIGNMENT = re.compile(
    rf"(?<!{_LETTER})(?P<name>{_LETTER}+)(?P<sign>[\"']?\s*=\s*)(?P<value>{_QUOTED}|{_BARE})"
    rf"|(?P<quote>[\"'])(?P<key>{_LETTER}+)(?P<colon>(?P=quote)\s*:\s*)(?P<text>{_QUOTED})"
)
# In SQL: CREATE SECRET (TYPE s3, KEY_ID '…', SECRET '…'), PASSWORD '…'.
_CLAUSE = re.compile(
    r"(?i)\b((?:\w*secret|\w*key_id|\w*token|password|connection_string|identified\s+by)\s+)"
    r"'(?:''|[^'])*'"
)
_SCHEME = r"(?<![\w.+\-])[A-Za-z][A-Za-z0-9+.\-]*:"
_AUTHORITY = re.compile(rf"{_SCHEME}//(?:\[[0-9A-Fa-f:.%]*\])?")
# URLs without slashes, and user/password@host of Oracle's thin driver.
_OPAQUE = re.compile(rf"({_SCHEME}(?:[^\s:/@'\"]+:|thin:[^\s/@]+/))[^\s@/]\S*(?=@)")
_WORD, _LINE = re.compile(r"\S*"), re.compile(".*")
_PORT = re.compile(r"\d+(?![^\s/?#,;)\]\"'.])")


def redact(text: str) -> str:
    """The text with ``***`` for each credential in a URL, a connection string or an assignment.

    Parameters
    ----------
    text : a URL, or any text that may contain URLs.
    """
    text = _OPAQUE.sub(rf"\g<1>{HIDDEN}", _redact_authorities(text))
    return _ASSIGNMENT.sub(_redact_value, _CLAUSE.sub(rf"\g<1>'{HIDDEN}'", text))


def has_credentials(url: str) -> bool:
    """Whether a URL or a connection string holds a credential."""
    return redact(url) != url


def _redact_authorities(text: str) -> str:
    """Redact the text between ``scheme://user:`` and the last @ that may end a password."""
    parts, end = [], 0
    for match in _AUTHORITY.finditer(text):
        if match.start() < end:
            continue
        first, last = _password_span(text, match.end())
        if first < last:
            parts += [text[end:first], HIDDEN]
            end = last
    return "".join([*parts, text[end:]])


def _password_span(text: str, start: int) -> tuple[int, int]:
    """The span of a password after ``scheme://``; empty if there is none."""
    word_end = _end_of(_WORD, text, start)
    last_at = text.rfind("@", start, word_end)
    colon = text.find(":", start, last_at if last_at >= 0 else word_end)
    if colon < 0:
        return start, start
    if last_at >= 0:
        return colon + 1, last_at
    # No @ in this word: a port, a path, or a password with a space in it.
    is_path = any(mark in text[start:colon] for mark in "/?#")
    if is_path or colon + 1 == word_end or _PORT.match(text, colon + 1):
        return start, start
    later_at = text.find("@", word_end, _end_of(_LINE, text, start))
    return colon + 1, later_at if later_at >= 0 else word_end


def _end_of(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return start if match is None else match.end()


def _redact_value(match: re.Match[str]) -> str:
    name, value = match["name"] or match["key"], match["value"] or match["text"]
    if not (_is_secret(match, name) or _hides_secret(value)):
        return match[0]
    quote = value[0] if value[0] in "'\"{" else ""
    end = "}" if quote == "{" else quote
    start = match[0][: len(match[0]) - len(value)]
    return f"{start}{quote}{HIDDEN}{end}"


def _is_secret(match: re.Match[str], name: str) -> bool:
    plain = re.sub(r"[\W_]", "", _decode(name)).lower()
    before = match.string[match.start() - 1 : match.start()]
    return (
        bool(_SECRET_PARTS.search(plain))
        or plain in _SECRET_NAMES
        or (plain in _SECRET_ARGUMENTS and before in ("?", "&"))
    )


def _hides_secret(value: str) -> bool:
    """Whether a percent-encoded value holds a connection string with a credential."""
    plain = _decode(value)
    return plain != value and has_credentials(plain)


def _decode(text: str) -> str:
    """The text without percent-encoding, which may be applied twice."""
    while (plain := unquote(text)) != text:
        text = plain
    return text
