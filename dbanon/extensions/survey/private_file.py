"""New files for the owner of the data alone: the list of records, and the page of the risk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from dbanon.errors import InsufficientRights, OutputExists

# What a file is, by the option that names it.
_KINDS = {"records": "list", "report": "report"}


def require_new_file(path: str | os.PathLike[str], option: str) -> Path:
    """Check that a file does not exist yet, before anything is computed for it.

    Parameters
    ----------
    option : the option that names the file: ``records`` or ``report``.

    Raises
    ------
    OutputExists : there is a file of this name.
    InsufficientRights : there is no such folder.
    """
    new_path = Path(path)
    if new_path.is_symlink() or new_path.exists():
        raise _exists_error(new_path, option)
    if not new_path.absolute().parent.is_dir():
        raise InsufficientRights(
            f"The {_KINDS[option]} {new_path} cannot be written: there is no such folder."
        )
    return new_path


@contextmanager
def open_private_file(path: Path, option: str) -> Iterator[TextIO]:
    """Open a new file for writing that only its owner can read; remove it if the block fails.

    Parameters
    ----------
    option : as in ``require_new_file``.

    Raises
    ------
    OutputExists : the file exists.
    InsufficientRights : the file cannot be created.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError:
        raise _exists_error(path, option) from None
    except OSError as error:
        raise InsufficientRights(
            f"The {_KINDS[option]} {path} cannot be written.", detail=error.strerror
        ) from None
    try:
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            os.fchmod(file.fileno(), 0o600)
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _exists_error(path: Path, option: str) -> OutputExists:
    return OutputExists(
        f"The file {path} already exists.",
        hint="Name a new file: `report`." if option == "report" else "Name a new file: `records`.",
    )
