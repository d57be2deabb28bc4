"""Salted hashes of person identifiers on MariaDB, which has neither pseudonyms nor chains."""

from __future__ import annotations

from dbanon.errors import ChainsNotHere
from dbanon.sessions import statements
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.person_tags import PersonTags


class MariadbPersonTags(PersonTags):
    """The salted hashes that MariaDB computes; there are no keyed ones."""

    def of_text(self, text: str) -> str:
        raise ChainsNotHere()

    def stage_salt(self, salt: bytes) -> None:
        columns = [("salt", "VARCHAR(64)")]
        self._connection.run(
            statements.create_staging(
                statements.SALT, columns, self._connection.dialect.staging_suffix
            )
        )
        self._connection.insert_rows(RelationName(None, statements.SALT), ["salt"], [(salt.hex(),)])

    def salted_hash_of(self, text: str) -> str:
        digest = f"sha2(concat((SELECT salt FROM {quote(statements.SALT)}), {text}), 256)"
        # The ledger stores 8 bytes per person: 16 hexadecimal digits.
        return f"unhex(left({digest}, 16))"
