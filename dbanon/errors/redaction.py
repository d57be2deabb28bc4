"""Redaction of credentials in texts before they are displayed or logged.

When in doubt, it hides a value: even a harmless one after a name such as ``token=``.
"""

from __future__ import annotations

import re

HIDDEN = "***"

# The patterns are texts, which the module ``re`` compiles on first use and keeps: few runs have an
# error to redact, and compiling takes three milliseconds of each start.

# A name that contains one of these words has a secret value. The words are used by S3, Google Cloud
# Storage, Azure, DuckDB, libpq, PyMySQL, ODBC and web services. Case, _, - and dots are ignored.
_SECRET_WORDS = (
    "pass(?!through|ed)|pwd|secret|token|signature|credential|accesskey|accountkey|sharedkey"
    "|apikey|privatekey|encryptionkey|keyid|connectionstring|authorization|odbcconnect|assertion"
)
# These are so short that many harmless names contain them, so they must be the entire name.
_SECRET_NAMES = frozenset(("sig", "auth", "sas"))
# These names have secret values only in the query of a URL; elsewhere, `key="id"` names a column.
_SECRET_ARGUMENTS = frozenset(("key", "hexkey", "textkey", "accessid", "googleaccessid"))

_NAME_CHARACTER = r"[\w.%\-\[\]]"
_QUOTED = r"'(?:\\.|''|[^'\\])*'|\"(?:\\.|\"\"|[^\"\\])*\"|\{[^{}]*\}"
# An unescaped password may contain & or ;, so a value ends only where the next assignment begins.
_UNQUOTED = rf"(?:(?![&;,]{_NAME_CHARACTER}+\s*=)\S)+"
# name=value, or "name": "value" as in JSON.
_ASSIGNMENT = (
    rf"(?<!{_NAME_CHARACTER})(?P<name>{_NAME_CHARACTER}+)(?P<sign>[\"']?\s*=\s*)(?P<value>{_QUOTED}|{_UNQUOTED})"
    rf"|(?P<quote>[\"'])(?P<key>{_NAME_CHARACTER}+)(?P<colon>(?P=quote)\s*:\s*)(?P<text>{_QUOTED})"
)
# In SQL: CREATE SECRET (TYPE s3, KEY_ID '…', SECRET '…'), PASSWORD '…'.
_CLAUSE = (
    r"(?i)\b((?:\w*secret|\w*key_id|\w*token|password|connection_string|identified\s+by)\s+)"
    r"'(?:''|[^'])*'"
)
_SCHEME = r"(?<![\w.+\-])[A-Za-z][A-Za-z0-9+.\-]*:"
# The colons of an IPv6 address in brackets do not begin a password, so it is skipped.
_AUTHORITY = rf"{_SCHEME}//(?:\[[0-9A-Fa-f:.%]*\])?"
# URLs without slashes, and user/password@host of Oracle's thin driver.
_OPAQUE = rf"({_SCHEME}(?:[^\s:/@'\"]+:|thin:[^\s/@]+/))[^\s@/]\S*(?=@)"
_WORD, _LINE = r"\S*", ".*"
_PORT = r"\d+(?![^\s/?#,;)\]\"'.])"


def redact(text: str) -> str:
    """Replace each credential in a URL, a connection string or an assignment by ``***``.

    Parameters
    ----------
    text : a URL, or any text that may contain URLs.
    """
    text = re.sub(_OPAQUE, rf"\g<1>{HIDDEN}", _redact_authorities(text))
    return re.sub(_ASSIGNMENT, _redact_value, re.sub(_CLAUSE, rf"\g<1>'{HIDDEN}'", text))


def has_credentials(url: str) -> bool:
    """Return whether a URL or a connection string contains a credential."""
    return redact(url) != url


def _redact_authorities(text: str) -> str:
    """Redact the text between ``scheme://user:`` and the last @ that may end a password."""
    parts = []
    redacted_end = 0
    for match in re.finditer(_AUTHORITY, text):
        # A match within a password is redacted already.
        if match.start() < redacted_end:
            continue
        password_start, password_end = _find_password(text, match.end())
        if password_start < password_end:
            parts += [text[redacted_end:password_start], HIDDEN]
            redacted_end = password_end
    return "".join([*parts, text[redacted_end:]])


def _find_password(text: str, start: int) -> tuple[int, int]:
    """Return the start and end of a URL's password; they are equal if there is none.

    Parameters
    ----------
    start : the position after ``scheme://``.
    """
    word_end = _match_end(_WORD, text, start)
    last_at_sign = text.rfind("@", start, word_end)
    colon = text.find(":", start, last_at_sign if last_at_sign >= 0 else word_end)
    if colon < 0:
        return start, start
    if last_at_sign >= 0:
        return colon + 1, last_at_sign
    # If the word has no @, the colon is followed by a port or is in a path, or it is followed by a
    # password that contains a space.
    is_path = any(mark in text[start:colon] for mark in "/?#")
    if is_path or colon + 1 == word_end or re.compile(_PORT).match(text, colon + 1):
        return start, start
    later_at_sign = text.find("@", word_end, _match_end(_LINE, text, start))
    return colon + 1, later_at_sign if later_at_sign >= 0 else word_end


def _match_end(pattern: str, text: str, start: int) -> int:
    match = re.compile(pattern).match(text, start)
    return start if match is None else match.end()


def _redact_value(match: re.Match[str]) -> str:
    """Return the text of an assignment, with its value hidden if that is secret."""
    name, value = match["name"] or match["key"], match["value"] or match["text"]
    if not (_has_secret_name(match, name) or _contains_secret(value)):
        return match[0]
    opening_quote = value[0] if value[0] in "'\"{" else ""
    closing_quote = "}" if opening_quote == "{" else opening_quote
    text_before_value = match[0][: len(match[0]) - len(value)]
    return f"{text_before_value}{opening_quote}{HIDDEN}{closing_quote}"


def _has_secret_name(match: re.Match[str], name: str) -> bool:
    normalized_name = re.sub(r"[\W_]", "", _decode(name)).lower()
    preceding_character = match.string[match.start() - 1 : match.start()]
    return (
        bool(re.search(_SECRET_WORDS, normalized_name))
        or normalized_name in _SECRET_NAMES
        or (normalized_name in _SECRET_ARGUMENTS and preceding_character in ("?", "&"))
    )


def _contains_secret(value: str) -> bool:
    """Return whether a percent-encoded value is a connection string with a credential."""
    decoded = _decode(value)
    return decoded != value and has_credentials(decoded)


def _decode(text: str) -> str:
    """Remove percent-encoding from a text, even if it was applied several times."""
    from urllib.parse import unquote

    while (decoded := unquote(text)) != text:
        text = decoded
    return text
