"""Keys of chains: made into a file of their own, and read from where a job says they are."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dbanon.errors import ChainKeyWrong, InsufficientRights, OutputExists

_BYTES = 32
_HEX = re.compile(rb"[0-9a-f]{64}")
_FORM = "A key is 64 hexadecimal digits, or a file of 32 bytes, as dbanon chain create makes them."


def read_key(where: str) -> bytes:
    """The key that ``file:PATH`` or ``env:NAME`` names, 32 bytes.

    Raises
    ------
    ChainKeyWrong : there is none, or others may read it. Nothing of it is told.
    """
    kind, _, name = where.partition(":")
    if kind == "env":
        content = os.environ.get(name, "").encode(errors="surrogateescape")
        if not content:
            raise ChainKeyWrong(f"The variable {name} holds no key.", hint=_FORM)
    else:
        content = _of_file(Path(name).expanduser())
    text = content.strip().lower()
    if _HEX.fullmatch(text):
        return bytes.fromhex(text.decode())
    if len(content) == _BYTES:
        return content
    raise ChainKeyWrong("What stands where the key is to be is no key.", hint=_FORM)


def _of_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISREG(mode) and mode & 0o077:
                raise ChainKeyWrong(
                    f"The key {path} may be read by others than its owner.",
                    hint="Take their rights away: chmod 600. If they may have read it, begin"
                    " another chain.",
                )
            return file.read(4 * _BYTES)
    except OSError as error:
        raise ChainKeyWrong(
            f"The key {path} cannot be read.", detail=error.strerror, hint=_FORM
        ) from None


@contextmanager
def new_key(path: Path) -> Iterator[bytes]:
    """A fresh key, in a file that is the owner's alone; the file goes when the block raises.

    Raises
    ------
    OutputExists : there is such a file.
    InsufficientRights : it cannot be made.
    """
    key = secrets.token_bytes(_BYTES)
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
