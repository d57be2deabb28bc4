"""Read the keys of chains and pseudonyms from a file or an environment variable.

Messages never contain a key.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from pathlib import Path

from dbanon.errors import DbanonError, PseudonymKeyWrong
from dbanon.job.pseudonym import PseudonymKey

KEY_BYTES = 32
_HEX_KEY = re.compile(rb"[0-9a-f]{64}")


def read_key(
    location: str, error_class: type[DbanonError], how_made: str, if_exposed: str
) -> bytes:
    """Read a key of 32 bytes.

    Parameters
    ----------
    location : ``file:PATH`` or ``env:NAME``.
    error_class : the error to raise if there is no key, or others may read its file.
    how_made : how keys are made, for the hint; the end of the sentence "A key is 64 hexadecimal
        digits, or a file of 32 bytes, …".
    if_exposed : what to do if others may have read the key, for the hint.
    """
    format_hint = f"A key is 64 hexadecimal digits, or a file of {KEY_BYTES} bytes, {how_made}."
    kind, _, name = location.partition(":")
    if kind == "env":
        content = os.environ.get(name, "").encode(errors="surrogateescape")
        if not content:
            raise error_class(f"The variable {name} holds no key.", hint=format_hint)
    else:
        content = _read_key_file(key_path(location), error_class, format_hint, if_exposed)
    text = content.strip().lower()
    if _HEX_KEY.fullmatch(text):
        return bytes.fromhex(text.decode())
    if len(content) == KEY_BYTES:
        return content
    raise error_class("The content of the file or variable is not a key.", hint=format_hint)


def read_pseudonym_key(location: str) -> PseudonymKey:
    """Read the key of pseudonyms at ``file:PATH`` or ``env:NAME``.

    Raises
    ------
    PseudonymKeyWrong : there is no key, or others may read its file.
    """
    how_made = "as openssl rand -hex 32 makes them"
    return PseudonymKey(
        read_key(location, PseudonymKeyWrong, how_made, if_exposed="use another one")
    )


def key_path(location: str) -> Path:
    """Return the path of a key at the location ``file:PATH``."""
    return Path(location.partition(":")[2]).expanduser()


def _read_key_file(
    path: Path, error_class: type[DbanonError], format_hint: str, if_exposed: str
) -> bytes:
    """Read at most four times the length of a key from a file that only its owner may read."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISREG(mode) and mode & 0o077:
                raise error_class(
                    f"Users other than its owner may read the key {path}.",
                    hint=f"Take their rights away: chmod 600 {shlex.quote(str(path))}. If others"
                    f" may have read it, {if_exposed}.",
                )
            # Enough for the hexadecimal digits with white space around them.
            return file.read(4 * KEY_BYTES)
    except OSError as error:
        raise error_class(
            f"The key {path} cannot be read.", detail=error.strerror, hint=format_hint
        ) from None
