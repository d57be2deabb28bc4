"""Keyed and salted hashes of person identifiers on PostgreSQL."""

from __future__ import annotations

import re

from dbanon.data.schema import Attribute
from dbanon.sessions import statements
from dbanon.sessions.names import quote
from dbanon.sessions.person_tags import INNER_BLOCK, OUTER_BLOCK, PersonTags, staged_block
from dbanon.sessions.statements import SALT

_FIXED_LENGTH_TYPE = re.compile(r"(character|char|bpchar)\b(?! varying)", re.I)


class PostgresqlPersonTags(PersonTags):
    """The keyed and salted hashes that PostgreSQL computes."""

    sql_type = "bytea"

    def of_text(self, text: str) -> str:
        # With a key, this is an HMAC: each of its two hashes begins with a block that is derived
        # from the staged key. With a salt in place of a key, there is no outer block, and one hash
        # is enough.
        digest = f"sha256({staged_block(INNER_BLOCK)} || convert_to({text}, 'UTF8'))"
        if self._hashes_twice:
            digest = f"sha256({staged_block(OUTER_BLOCK)} || {digest})"
        return f"substring({digest} FROM 1 FOR 16)"

    def pseudonym_of(self, text: str) -> str:
        return f"encode({self.of_text(text)}, 'hex')"

    def salted_hash_of(self, text: str) -> str:
        salted = f"(SELECT salt FROM {quote(SALT)}) || convert_to({text}, 'UTF8')"
        # The ledger stores 8 bytes per person.
        return f"substr(sha256({salted}), 1, 8)"

    def stage_salt(self, salt: bytes) -> None:
        self._connection.run(
            statements.create_staging(
                SALT, [("salt", "bytea")], self._connection.dialect.staging_suffix
            )
        )
        # Sent as text: a backend's session can only pass text parameters.
        self._connection.run(
            f"INSERT INTO {quote(SALT)} SELECT decode(?::text, 'hex')", (salt.hex(),)
        )

    def has_padding(self, attribute: Attribute) -> bool:
        # True for character(n): its values are padded with spaces, which a cast to text removes.
        return bool(_FIXED_LENGTH_TYPE.match(attribute.sql_type))
