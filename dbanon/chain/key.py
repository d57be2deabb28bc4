"""Keys of chains: made into a file of their own, read from where a job says they are, and tags.

Persons of a chain stand under tags, by a key that no database has. A tag is half of the SHA-256 of
a key of the chain's own and of the value that says who a person is: without the key it names
nobody, and nobody can go on from half of a digest (M. Bellare, D. J. Bernstein, S. Tessaro,
"Hash-function based PRFs: AMAC and its multi-user security", 2016). Chains of earlier builds have
the HMAC-SHA256 of their identity and of that value, cut to as much, which takes a database twice
the time. What a chain's key is checked by says which of the two it has.
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
from dbanon.run.key import BYTES, key_path
from dbanon.run.key import read_key as _read_key

_BLOCK = 64
_CHECKED, _CHECKED_TWICE = b"dbanon chain 2", b"dbanon chain"
_TAGS = b"dbanon tags 1\x1f"
_TAG_BYTES = 16


def read_key(where: str) -> bytes:
    """The key of a chain, 32 bytes, from where a job says it is.

    Raises
    ------
    ChainKeyWrong : there is none, or others may read it. Nothing of it is told.
    """
    made = "as dbanon chain create makes them"
    return _read_key(where, ChainKeyWrong, made, "begin another chain")


def has_file(where: str) -> bool:
    """Whether the key's file is there; always where the key is in the environment."""
    return not where.startswith("file:") or os.path.lexists(key_path(where))


def last_published(where: str, identity: str) -> int:
    """The last release of a chain that was noted beside the file of its key; 0 where none was.

    Raises
    ------
    ChainKeyWrong : there is a note, and it cannot be read.
    """
    path = _beside(where)
    try:
        return 0 if path is None else _noted(path).get(identity, 0)
    except (OSError, ValueError):
        raise ChainKeyWrong(
            f"The note {path} beside the key cannot be read.",
            hint=(
                "The file says which release was the last. Let this role read it. If you are sure"
                " that the database was not restored, you may remove it."
            ),
        ) from None


def note_published(where: str, identity: str, sequence: int) -> bool:
    """Note beside the file of a key that a release counts as published; whether that was done.

    A restored database does not know of it, and would make as many another time. A key of the
    environment has no file, and needs no note.
    """
    path = _beside(where)
    if path is None:
        return True
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        # Chains that share a key note one after the other.
        with key_path(where).open("rb") as key:
            fcntl.flock(key, fcntl.LOCK_EX)
            # One that cannot be read may say more of other chains than this could write: it stays.
            known = _noted(path)
            known[identity] = max(sequence, known.get(identity, 0))
            file = os.open(fresh, flags, 0o600)
            try:
                os.write(file, json.dumps(known).encode())
                os.fsync(file)
            finally:
                os.close(file)
            fresh.replace(path)
    except (OSError, ValueError):
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        return False
    return True


def _beside(where: str) -> Path | None:
    if not where.startswith("file:"):
        return None
    key = key_path(where)
    return key.with_name(f"{key.name}.last")


def _noted(path: Path) -> dict[str, int]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    if not isinstance(found, dict) or not all(isinstance(last, int) for last in found.values()):
        raise ValueError("no list of releases")
    return found


@contextmanager
def new_key(path: Path) -> Iterator[bytes]:
    """A fresh key, in a file that is the owner's alone; the file goes when the block raises.

    Raises
    ------
    OutputExists : there is such a file.
    InsufficientRights : it cannot be made.
    """
    key = secrets.token_bytes(BYTES)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        file = os.open(path, flags, 0o600)
    except FileExistsError:
        raise OutputExists(
            f"The file {path} exists already.", hint="A key is never written over another file."
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
