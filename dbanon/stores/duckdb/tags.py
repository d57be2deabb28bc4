"""Keyed and salted hashes of person identifiers on DuckDB."""

from __future__ import annotations

from dbanon.sessions.person_tags import INNER_BLOCK, OUTER_BLOCK, PersonTags, staged_block


class DuckdbPersonTags(PersonTags):
    """The keyed and salted hashes that DuckDB computes."""

    def of_text(self, text: str) -> str:
        # HMAC hashes the text after a first block made from the key, and the result after a second
        # one. ``stage_key`` has staged both blocks.
        inner_hash = f"sha256({staged_block(INNER_BLOCK)} || encode({text}))"
        outer_hash = f"sha256({staged_block(OUTER_BLOCK)} || unhex({inner_hash}))"
        # The tag is the first 32 hexadecimal digits, 16 bytes, of an HMAC; or of the inner hash
        # alone, if ``stage_key`` was called without an outer block.
        return f"unhex(substr({outer_hash if self._hashes_twice else inner_hash}, 1, 32))"

    def salted_hash_of(self, text: str) -> str:
        # ``stage_salt`` stages the salt as the inner block. The first 16 hexadecimal digits are 8
        # bytes.
        return f"unhex(substr(sha256({staged_block(INNER_BLOCK)} || encode({text})), 1, 16))"
