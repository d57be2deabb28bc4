"""Keys of chains: create, read and check them, and compute the tags of persons.

A chain stores persons under tags (pseudonyms), which are computed with a secret key that is not in
any database. A chain-specific key is derived from the secret key and the chain's identity (a UUID).
A tag is the first half of a SHA-256 digest, whose input is the chain-specific key followed by the
person's identifier. Without the secret key, no one can compute the tag of a person. Because half of
the digest is missing, length extension attacks do not work (M. Bellare, D. J. Bernstein,
S. Tessaro, "Hash-function based PRFs: AMAC and its multi-user security", 2016). Chains of earlier
versions use a truncated HMAC-SHA256 of the chain's identity and the identifier, which takes a
database twice as long.

The *key check*, a value stored with the chain, verifies the key and shows which kind of tags the
chain uses. Next to a key file there is a *note*: a file with the number of the last release of each
chain that uses the key.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from dbanon.errors import ChainKeyWrong, InsufficientRights, OutputExists
from dbanon.run.key import KEY_BYTES, key_path
from dbanon.run.key import read_key as _read_key

# The block size of SHA-256, to which HMAC pads the key.
_BLOCK_BYTES = 64
# The messages whose HMACs are the key checks of chains, and of chains of earlier versions.
_CHECK_MESSAGE, _HMAC_CHECK_MESSAGE = b"dbanon chain 2", b"dbanon chain"
# The start of the message from which the chain-specific key is derived.
_TAG_MESSAGE = b"dbanon tags 1\x1f"
_TAG_BYTES = 16


def read_key(location: str) -> bytes:
    """Read the key of a chain, 32 bytes, from the location that a job names.

    Raises
    ------
    ChainKeyWrong : there is no key, or other accounts may read it. The message does not contain the
        key.
    """
    # Phrases for the error's hint: how to make a key, and what to do if others can read it.
    how_made = "as dbanon chain create makes them"
    if_exposed = "create another chain"
    return _read_key(location, ChainKeyWrong, how_made, if_exposed)


def key_exists(location: str) -> bool:
    """Whether the key's file exists; always True for a key in the environment."""
    return not location.startswith("file:") or os.path.lexists(key_path(location))


def read_last_published(location: str, identity: str) -> int:
    """Read the number of a chain's last release from the note next to its key file; 0 without one.

    Parameters
    ----------
    location : where the key is, as a job names it: ``file:PATH`` or ``env:NAME``.
    identity : the UUID that identifies the chain.

    Raises
    ------
    ChainKeyWrong : the note exists but cannot be read.
    """
    path = _note_path(location)
    try:
        return 0 if path is None else _read_note(path).get(identity, 0)
    except (OSError, ValueError):
        raise ChainKeyWrong(
            f"The note {path} next to the key cannot be read.",
            hint=(
                "It records the number of the last release. Let this role read it. If it is"
                " damaged, and the database was not restored from a backup, remove it."
            ),
        ) from None


def note_published(location: str, identity: str, release_number: int) -> bool:
    """Record next to the key file that a release counts as published; return False on failure.

    A release counts as published once the chain's state is committed, whether or not its output
    has been written.

    From this note, dbanon detects a database restored from a backup, which would use the same
    release numbers again. For a key in the environment there is no file and no note.

    Parameters
    ----------
    location : where the key is, as a job names it: ``file:PATH`` or ``env:NAME``.
    identity : the UUID that identifies the chain.
    release_number : the number of the release in the chain, from 1.
    """
    path = _note_path(location)
    if path is None:
        return True
    temporary_path = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        # Chains that share a key take turns writing the note.
        with key_path(location).open("rb") as key:
            fcntl.flock(key, fcntl.LOCK_EX)
            # If the note is unreadable, this raises an error, so that the note is not replaced: it
            # may record releases of other chains.
            last_releases = _read_note(path)
            last_releases[identity] = max(release_number, last_releases.get(identity, 0))
            file = os.open(temporary_path, flags, 0o600)
            try:
                os.write(file, json.dumps(last_releases).encode())
                os.fsync(file)
            finally:
                os.close(file)
            temporary_path.replace(path)
    except (OSError, ValueError):
        with suppress(OSError):
            temporary_path.unlink(missing_ok=True)
        return False
    return True


def _note_path(location: str) -> Path | None:
    """The path of the note next to a key file; None for a key in the environment."""
    if not location.startswith("file:"):
        return None
    key = key_path(location)
    return key.with_name(f"{key.name}.last")


def _read_note(path: Path) -> dict[str, int]:
    """Read the note: the number of the last release of each chain, by the chain's identity.

    Raises
    ------
    OSError, ValueError : the note cannot be read, or is not a JSON object of numbers.
    """
    try:
        last_releases = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    if not isinstance(last_releases, dict) or not all(
        isinstance(number, int) for number in last_releases.values()
    ):
        raise ValueError("not an object of release numbers")
    return last_releases


@contextmanager
def new_key(path: Path) -> Iterator[bytes]:
    """Create a key in a file that only its owner can read; remove the file if the block raises.

    Raises
    ------
    OutputExists : the file exists.
    InsufficientRights : the file cannot be created.
    """
    key = secrets.token_bytes(KEY_BYTES)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        file = os.open(path, flags, 0o600)
    except FileExistsError:
        raise OutputExists(
            f"The file {path} already exists.", hint="A key is never written over another file."
        ) from None
    except OSError as error:
        raise InsufficientRights(
            f"The key {path} cannot be written.", detail=error.strerror
        ) from None
    try:
        try:
            os.fchmod(file, 0o600)
            os.write(file, key.hex().encode() + b"\n")
            os.fsync(file)
        finally:
            os.close(file)
        yield key
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def compute_check(key: bytes) -> bytes:
    """Compute the key check of a chain, which verifies the key without revealing it."""
    return _hmac_sha256(key, _CHECK_MESSAGE)


def matches_check(key: bytes, check: bytes) -> bool:
    """Whether a key matches a chain's key check."""
    return _verifies(key, _CHECK_MESSAGE, check) or _verifies(key, _HMAC_CHECK_MESSAGE, check)


def hash_prefixes(key: bytes, identity: str, check: bytes) -> tuple[bytes, bytes]:
    """Return the key material of tags: the bytes that are hashed before identifiers.

    The inner hash covers the first item, then the person's identifier. The tags of chains of
    earlier versions are HMACs: an outer hash covers the second item, then the inner hash. For other
    chains, the second item is empty, and the tag is taken from the inner hash.

    Parameters
    ----------
    identity : the UUID that identifies the chain.
    check : the key check of the chain.
    """
    if _verifies(key, _CHECK_MESSAGE, check):
        return _hmac_sha256(key, _TAG_MESSAGE + identity.encode()), b""
    # HMAC: the inner hash starts with the key XOR 0x36, the outer hash with the key XOR 0x5C.
    padded_key = key.ljust(_BLOCK_BYTES, b"\0")
    inner, outer = (bytes(byte ^ pad for byte in padded_key) for pad in (0x36, 0x5C))
    return inner + identity.encode() + b"\x1f", outer


def compute_tags(key: bytes, identity: str, check: bytes, entities: Sequence[str]) -> list[bytes]:
    """Compute the tags of persons.

    Parameters
    ----------
    identity : the UUID that identifies the chain.
    check : the key check of the chain.
    entities : the identifiers of the persons, as the database converts them to text.
    """
    inner, outer = hash_prefixes(key, identity, check)
    digests = [hashlib.sha256(inner + entity.encode()).digest() for entity in entities]
    return [
        (hashlib.sha256(outer + digest).digest() if outer else digest)[:_TAG_BYTES]
        for digest in digests
    ]


def _hmac_sha256(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).digest()


def _verifies(key: bytes, message: bytes, check: bytes) -> bool:
    """True if the key check is the HMAC of this message, with this key."""
    return hmac.compare_digest(_hmac_sha256(key, message), check)
