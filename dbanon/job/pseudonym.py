"""Pseudonyms: identifiers released as keyed hashes of their values, so that releases can be joined.

A pseudonym is the first 128 bits of HMAC-SHA-256 (RFC 2104, truncated as in its section 5) of the
value's text, in hexadecimal digits. The HMAC key is derived from the user's key. A chain may hash
values with the same user's key; because of the derivation, its hashes never equal pseudonyms.

An option with ``concerns_release`` has no meaning without a release, so functions that only build
classes do not take it. The JSON argument of SQL functions has no key for an option with
``available_in_sql=False``. The error ``TellingColumnRefused`` is about released columns that reveal
too much about persons.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Annotated

from dbanon.data.frozen import dataclass
from dbanon.data.option import Option, check_options
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import (
    InvalidParameter,
    TellingColumnRefused,
    UnsupportedType,
    invalid_text_error,
)
from dbanon.job.verdict import Caution

_KEY_LOCATION = r"(?s)(file:.+|env:[A-Za-z_][A-Za-z0-9_]*)"
# 32 bytes in hexadecimal digits or base64, as key generators print them.
_RAW_KEY = r"(?s)\s*(?:(?:.*/)?(?:0x)?[0-9A-Fa-f]{64}|[\w+/-]{43}=)\s*"
_KEY_FORM = "file:PATH or env:NAME"
_DOCS_PAGE = "guarantees.md#pseudonyms"
# Texts from which the HMAC keys of pseudonyms and of date shifts and the key's fingerprint are
# derived; they differ, so that none reveals another.
_KEY_LABEL, _FINGERPRINT_LABEL = b"dbanon pseudonym 1", b"dbanon pseudonym key 1"
_OFFSET_LABEL = b"dbanon date shift 1"
# The block size of SHA-256.
_BLOCK_BYTES = 64
# The length of a pseudonym.
_HEX_DIGITS = 32


def is_key_location(text: str) -> bool:
    """True if a text names the location of a key, and cannot be mistaken for the key itself."""
    location = text.partition(":")[2]
    return bool(re.fullmatch(_KEY_LOCATION, text)) and not re.fullmatch(_RAW_KEY, location)


@dataclass(frozen=True, kw_only=True)
class PseudonymOptions:
    """Which columns are released as pseudonyms, and where their key is.

    Parameters
    ----------
    pseudonyms : columns of whole numbers, texts or UUIDs.
    pseudonym_key : the location of the key, never the key itself.

    Raises
    ------
    InvalidParameter : the location has another form. The message omits it, as it may be a key.
    """

    pseudonyms: Annotated[
        tuple[str, ...],
        Option(
            "Identifiers to release as keyed hashes, so that releases can be joined. With the"
            " same key, a value always has the same pseudonym.",
            flag="pseudonym",
            form="NAME",
            concerns_release=True,
            available_in_sql=False,
            docs_page=_DOCS_PAGE,
        ),
    ] = ()
    pseudonym_key: Annotated[
        str | None,
        Option(
            "Where the key for pseudonyms and for `shift_dates` is. Never give the key itself.",
            expected=_KEY_FORM,
            form="file:PATH|env:NAME",
            concerns_release=True,
            available_in_sql=False,
            docs_page=_DOCS_PAGE,
        ),
    ] = None

    def __post_init__(self) -> None:
        check_options(self)
        if self.pseudonym_key is not None and not is_key_location(self.pseudonym_key):
            raise InvalidParameter(
                f"pseudonym_key must be {_KEY_FORM}: where the key is, never the key itself.",
                hint="Make one: openssl rand -hex 32 > key; chmod 600 key.",
            )

    def with_paths(
        self, map_path: Callable[[str], str], map_text: Callable[[str], str]
    ) -> PseudonymOptions:
        """Copy the options, and map the location of the key, as job files do to expand paths.

        Parameters
        ----------
        map_path : a function for the path, if the location is a file.
        map_text : a function for the variable's name, if it is an environment variable.
        """
        if self.pseudonym_key is None:
            return self
        kind, _, location = self.pseudonym_key.partition(":")
        map_location = map_path if kind == "file" else map_text
        return replace(self, pseudonym_key=f"{kind}:{map_location(location)}")

    def require_key(self, *, shifts_persons: bool = False) -> None:
        """Check that a key is set if there are pseudonyms, and only if something needs it.

        Parameters
        ----------
        shifts_persons : True if the dates of persons are shifted, by this key if there is one.

        Raises
        ------
        InvalidParameter : one of the two is missing.
        """
        if self.pseudonyms and self.pseudonym_key is None:
            raise InvalidParameter(
                "Pseudonyms need a key.",
                hint=(
                    "Say where the key is, as file:PATH or env:NAME: `pseudonym_key`. A call in SQL"
                    " takes none, because logs would show it."
                ),
            )
        if self.pseudonym_key is not None and not self.pseudonyms and not shifts_persons:
            raise InvalidParameter(
                "A key for pseudonyms was given, but no column has pseudonyms.",
                hint="Name the columns: `pseudonyms`.",
            )

    def check_strict(self, strict: bool) -> None:
        """Check that ``strict`` does not forbid the pseudonyms.

        Raises
        ------
        TellingColumnRefused : ``strict`` is set, and there are pseudonyms.
        """
        if self.pseudonyms and strict:
            raise TellingColumnRefused(
                "Pseudonyms show which rows share a value. Nothing was published.",
                detail=f"Pseudonyms: {', '.join(self.pseudonyms)}.",
                hint="Leave them out, or leave out `strict`.",
            )


NO_PSEUDONYMS = PseudonymOptions()


class PseudonymKey:
    """The key of pseudonyms; its representation hides it.

    Parameters
    ----------
    key : the user's key, 32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        # Import these late, because most database backends never compute pseudonyms.
        import hashlib
        import hmac

        self._hmac = partial(hmac.new, digestmod=hashlib.sha256)
        self._derived_key: bytes = self._hmac(key, _KEY_LABEL).digest()
        self._offset_key: bytes = self._hmac(key, _OFFSET_LABEL).digest()
        # Identifies the key in the ledger. A random key cannot be guessed from it.
        self.fingerprint: str = self._hmac(key, _FINGERPRINT_LABEL).hexdigest()[:_HEX_DIGITS]

    def __repr__(self) -> str:
        return "PseudonymKey()"

    def pseudonym(
        self, attribute: Attribute, value: object, has_padding: bool = False
    ) -> str | None:
        """The pseudonym of a column's value; None for NULL.

        Parameters
        ----------
        value : the value; ``str(value)`` must be its text in databases.
        has_padding : True if the text may have trailing spaces that its database ignores.

        Raises
        ------
        UnsupportedType : the text has an unpaired surrogate, which no database can encode.
        """
        if value is None:
            return None
        text = str(value).rstrip(" ") if has_padding else str(value)
        try:
            encoded = text.encode()
        except UnicodeEncodeError:
            encoded = None
        # Raise outside the handler: Python's error contains the value and must not be chained.
        if encoded is None:
            raise invalid_text_error(attribute.name)
        return self._hmac(self._derived_key, encoded).hexdigest()[:_HEX_DIGITS]

    def offset_tag(self, text: str) -> bytes:
        """The hash, 16 bytes, from which the date offset of a person with this text follows."""
        return self._hmac(self._offset_key, text.encode()).digest()[:16]

    def hmac_blocks(self) -> tuple[bytes, bytes]:
        """The two key blocks, which HMAC puts before the text in its inner and its outer hash."""
        return _build_hmac_blocks(self._derived_key)

    def offset_hmac_blocks(self) -> tuple[bytes, bytes]:
        """The two key blocks of ``offset_tag``."""
        return _build_hmac_blocks(self._offset_key)


def _build_hmac_blocks(key: bytes) -> tuple[bytes, bytes]:
    """Build the two key blocks of an HMAC with SHA-256."""
    padded_key = key.ljust(_BLOCK_BYTES, b"\0")
    # The constants ipad and opad of RFC 2104.
    inner, outer = (bytes(byte ^ pad for byte in padded_key) for pad in (0x36, 0x5C))
    return inner, outer


def pseudonym_attribute(attribute: Attribute) -> Attribute:
    """The released column of pseudonyms: text, whatever its type in the source."""
    return replace(attribute, kind=Kind.CATEGORY, sql_type="text", order=())


def require_pseudonym_type(attribute: Attribute) -> None:
    """Check that values of the column have the same text in every database.

    Raises
    ------
    UnsupportedType : the column's type does not ensure this.
    """
    if attribute.kind in (Kind.INTEGER, Kind.CATEGORY) or attribute.sql_type.lower() == "uuid":
        return
    raise UnsupportedType(
        f'Column "{attribute.name}" of type {attribute.sql_type or "unknown"}'
        " cannot be released as pseudonyms, which are made from whole numbers, texts and UUIDs.",
        hint="Cast it to text in a view.",
    )


def build_pseudonym_caution(columns: Collection[str], entity: str | None) -> Caution:
    """The caution about a release with pseudonyms in ``columns``."""
    linkability = (
        "all rows with the same value can be linked, whatever their classes, also with rows of"
        " other releases under the same key"
    )
    if entity in columns:
        linkability = (
            "a person's rows can be linked. In this release they are in one class, unless strata or"
            " NULLs separate them. Other releases under the same key have them in other classes"
        )
    return Caution(
        warning=f"pseudonyms link rows ({', '.join(columns)})",
        title="PSEUDONYMS LINK ROWS",
        reason=f"{linkability}. k holds for each combination of values, not for what such rows"
        " reveal together",
    )
