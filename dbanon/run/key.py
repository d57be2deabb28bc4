"""Keys of chains and pseudonyms: read from a file or variable, never shown in a message."""

from __future__ import annotations

import os
import re
import shlex
import stat
from pathlib import Path

from dbanon.errors import DbanonError, PseudonymKeyWrong
from dbanon.job.pseudonym import PseudonymKey

BYTES = 32
_HEX = re.compile(rb"[0-9a-f]{64}")


def read_key(where: str, wrong: type[DbanonError], how_made: str, instead: str) -> bytes:
    """The key that ``file:PATH`` or ``env:NAME`` names, 32 bytes.

    Parameters
    ----------
    wrong : the error if there is no key, or others may read it. It contains nothing of the key.
    how_made : how keys are made, in words.
    instead : what to do if others may have read the key.
    """
    form = f"A key is 64 hexadecimal digits, or a file of {BYTES} bytes, {how_made}."
    kind, _, name = where.partition(":")
    if kind == "env":
        content = os.environ.get(name, "").encode(errors="surrogateescape")
        if not content:
            raise wrong(f"The variable {name} holds no key.", hint=form)
    else:
        content = _of_file(key_path(where), wrong, form, instead)
    text = content.strip().lower()
    if _HEX.fullmatch(text):
        return bytes.fromhex(text.decode())
    if len(content) == BYTES:
        return content
    raise wrong("The text at the place of the key is not a key.", hint=form)


def read_pseudonym_key(where: str) -> PseudonymKey:
    """The key of pseudonyms that ``file:PATH`` or ``env:NAME`` names.

    Raises
    ------
    PseudonymKeyWrong : there is none, or others may read it. Contains nothing of the key.
    """
    how_made = "as openssl rand -hex 32 makes them"
    return PseudonymKey(read_key(where, PseudonymKeyWrong, how_made, "use another one"))


def key_path(where: str) -> Path:
    """The path of a key that is stored in a file."""
    return Path(where.partition(":")[2]).expanduser()


def _of_file(path: Path, wrong: type[DbanonError], form: str, instead: str) -> bytes:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISREG(mode) and mode & 0o077:
                raise wrong(
                    f"The key {path} may be read by others than its owner.",
                    hint=f"Take their rights away: chmod 600 {shlex.quote(str(path))}. If others"
                    f" may have read it, {instead}.",
                )
            return file.read(4 * BYTES)
    except OSError as error:
        raise wrong(f"The key {path} cannot be read.", detail=error.strerror, hint=form) from None
