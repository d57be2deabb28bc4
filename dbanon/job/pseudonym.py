"""Pseudonyms: identifiers that are released as keyed hashes of their values, so that they join.

A pseudonym is the first 128 bits of HMAC-SHA-256 (RFC 2104, truncated as its section 5 has it) of
the value's text, in hexadecimal digits. Its key is made from the one that is given, so that what
chains compute with that one is never a pseudonym.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Annotated

from dbanon.data.frozen import dataclass
from dbanon.data.option import Option, check
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, TellingColumnRefused, UnsupportedType, broken_text
from dbanon.job.verdict import Caution

_LOCATION = re.compile(r"(file:.+|env:[A-Za-z_][A-Za-z0-9_]*)", re.S)
# 32 bytes in hexadecimal digits or in base64, as tools that make keys print them.
_KEY_ITSELF = re.compile(r"\s*(?:(?:.*/)?(?:0x)?[0-9A-Fa-f]{64}|[\w+/-]{43}=)\s*", re.S)
_KEY_FORM = "file:PATH or env:NAME"
_SEE = "guarantees.md#pseudonyms"
# What keys of pseudonyms, and what tells them apart, are made of.
_OF_PSEUDONYMS, _CHECKED = b"dbanon pseudonym 1", b"dbanon pseudonym key 1"
_BLOCK, _DIGITS = 64, 32


def is_key_location(text: str) -> bool:
    """Whether a text says where a key is; one that holds the key itself would be shown."""
    place = text.partition(":")[2]
    return bool(_LOCATION.fullmatch(text)) and not _KEY_ITSELF.fullmatch(place)


@dataclass(frozen=True, kw_only=True)
class Pseudonymized:
    """Which columns are released as pseudonyms, and where their key is.

    Parameters
    ----------
    pseudonyms : columns of whole numbers, texts or UUIDs.
    pseudonym_key : where the key is, never the key itself.

    Raises
    ------
    InvalidParameter : the place of the key has another form; it is not told, as it may be a key.
    """

    pseudonyms: Annotated[
        tuple[str, ...],
        Option(
            "Identifiers to release as keyed hashes, so that releases can be joined. With the"
            " same key, a value always has the same pseudonym.",
            flag="pseudonym",
            form="NAME",
            release=True,
            sql=False,
            see=_SEE,
        ),
    ] = ()
    pseudonym_key: Annotated[
        str | None,
        Option(
            "Where the key for pseudonyms is. Never give the key itself.",
            expected=_KEY_FORM,
            form="file:PATH|env:NAME",
            release=True,
            sql=False,
            see=_SEE,
        ),
    ] = None

    def __post_init__(self) -> None:
        check(self)
        if self.pseudonym_key is not None and not is_key_location(self.pseudonym_key):
            raise InvalidParameter(
                f"pseudonym_key must be {_KEY_FORM}: where the key is, never the key itself.",
                hint="Make one: openssl rand -hex 32 > key; chmod 600 key.",
            )

    def placed(self, path: Callable[[str], str], text: Callable[[str], str]) -> Pseudonymized:
        """The same with the file of the key where that is; ``text`` for the name of a variable."""
        if self.pseudonym_key is None:
            return self
        kind, _, place = self.pseudonym_key.partition(":")
        place = path(place) if kind == "file" else text(place)
        return replace(self, pseudonym_key=f"{kind}:{place}")

    def require_key(self) -> None:
        """Check that there is a key where there are pseudonyms, and only there.

        Raises
        ------
        InvalidParameter : there is not.
        """
        if self.pseudonyms and self.pseudonym_key is None:
            raise InvalidParameter(
                "Pseudonyms need a key.",
                hint=(
                    "Say where the key is, as file:PATH or env:NAME: `pseudonym_key`. A call in SQL"
                    " takes none, because logs would show it."
                ),
            )
        if self.pseudonym_key is not None and not self.pseudonyms:
            raise InvalidParameter(
                "A key of pseudonyms was given, and no column is one.",
                hint="Name the columns: `pseudonyms`.",
            )

    def require_told(self, strict: bool) -> None:
        """Check that pseudonyms are not refused.

        Raises
        ------
        TellingColumnRefused : strict was asked for.
        """
        if self.pseudonyms and strict:
            raise TellingColumnRefused(
                "Pseudonyms show which rows share a value. Nothing was published.",
                detail=f"Pseudonyms: {', '.join(self.pseudonyms)}.",
                hint="Leave them out, or leave out `strict`.",
            )


NO_PSEUDONYMS = Pseudonymized()


class PseudonymKey:
    """The key of pseudonyms, which nothing prints.

    Parameters
    ----------
    key : as it was given, 32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        # A backend, which makes no pseudonyms, needs neither module.
        import hashlib
        import hmac

        self._new = partial(hmac.new, digestmod=hashlib.sha256)
        self._own: bytes = self._new(key, _OF_PSEUDONYMS).digest()
        # Tells whether it is the one; of a random key it tells nothing.
        self.check: str = self._new(key, _CHECKED).hexdigest()[:_DIGITS]

    def __repr__(self) -> str:
        return "PseudonymKey()"

    def of(self, attribute: Attribute, value: object, padded: bool = False) -> str | None:
        """The pseudonym of a column's value by its text, as databases write it; NULL has none.

        Parameters
        ----------
        padded : the value came with spaces behind it that its database does not count.

        Raises
        ------
        UnsupportedType : there is half a character in it, of which no database makes text.
        """
        if value is None:
            return None
        text = str(value).rstrip(" ") if padded else str(value)
        try:
            told = text.encode()
        except UnicodeEncodeError:
            told = None
        # Not raised above: the error of Python, which holds the value, would go with it.
        if told is None:
            raise broken_text(attribute.name)
        return self._new(self._own, told).hexdigest()[:_DIGITS]

    def blocks(self) -> tuple[bytes, bytes]:
        """What the inner and the outer hash begin with."""
        padded = self._own.ljust(_BLOCK, b"\0")
        inner, outer = (bytes(byte ^ pad for byte in padded) for pad in (0x36, 0x5C))
        return inner, outer


def pseudonymous(attribute: Attribute) -> Attribute:
    """The column as it is released: text, whatever it was."""
    return replace(attribute, kind=Kind.CATEGORY, sql_type="text", order=())


def require_pseudonymous(attribute: Attribute) -> None:
    """Check that values of the column have one text each, in whichever database they are.

    Raises
    ------
    UnsupportedType : they have not.
    """
    if attribute.kind in (Kind.INTEGER, Kind.CATEGORY) or attribute.sql_type.lower() == "uuid":
        return
    raise UnsupportedType(
        f'Column "{attribute.name}" of type {attribute.sql_type or "unknown"} cannot be released as'
        " pseudonyms: they are of whole numbers, texts and UUIDs.",
        hint="Cast it to text in a view.",
    )


def caution_of(columns: Collection[str], entity: str | None) -> Caution:
    """What whoever reads a release with pseudonyms has to be told."""
    rows = (
        "all rows of one value can be put together, in whichever classes they are, and also those"
        " of other releases under the same key"
    )
    if entity in columns:
        rows = (
            "a person's rows can be put together: here they are in one class, unless strata or"
            " NULLs part them, and in other releases under the same key they are in others"
        )
    return Caution(
        f"pseudonyms link rows ({', '.join(columns)})",
        "PSEUDONYMS LINK ROWS",
        f"{rows}. k holds for each combination of values, not for what such rows reveal together",
    )
