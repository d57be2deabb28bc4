"""The tags that persons of a chain stand under, by a key that no database has.

Half of the SHA-256 of a key of the chain's own and of the value that says who a person is: without
the key it names nobody, and nobody can go on from half of a digest (M. Bellare, D. J. Bernstein,
S. Tessaro, "Hash-function based PRFs: AMAC and its multi-user security", 2016). Chains of earlier
builds have the HMAC-SHA256 of their identity and of that value, cut to as much, which takes a
database twice the time. What a chain's key is checked by says which of the two it has.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

_BLOCK = 64
_CHECKED, _CHECKED_TWICE = b"dbanon chain 2", b"dbanon chain"
_TAGS = b"dbanon tags 1\x1f"
_TAG_BYTES = 16


def check_of(key: bytes) -> bytes:
    """What tells whether a key is that of a chain, and tells nothing of it."""
    return _keyed(key, _CHECKED)


def fits(key: bytes, check: bytes) -> bool:
    """Whether a key is that of the chain that keeps ``check``."""
    return _is_of(key, _CHECKED, check) or _is_of(key, _CHECKED_TWICE, check)


def blocks(key: bytes, identity: str, check: bytes) -> tuple[bytes, bytes]:
    """What the inner and the outer hash of a tag begin with; the latter empty where there is one.

    Parameters
    ----------
    identity, check : the chain's; the key fits.
    """
    if _is_of(key, _CHECKED, check):
        return _keyed(key, _TAGS + identity.encode()), b""
    padded = key.ljust(_BLOCK, b"\0")
    inner, outer = (bytes(byte ^ pad for byte in padded) for pad in (0x36, 0x5C))
    return inner + identity.encode() + b"\x1f", outer


def tags(key: bytes, identity: str, check: bytes, entities: Sequence[str]) -> list[bytes]:
    """The tags of persons, whom texts name as the database writes them."""
    inner, outer = blocks(key, identity, check)
    found = [hashlib.sha256(inner + one.encode()).digest() for one in entities]
    return [(hashlib.sha256(outer + one).digest() if outer else one)[:_TAG_BYTES] for one in found]


def _keyed(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).digest()


def _is_of(key: bytes, message: bytes, check: bytes) -> bool:
    return hmac.compare_digest(_keyed(key, message), check)
