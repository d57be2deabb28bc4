"""A directory in memory for short-lived files, if there is enough memory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ENOUGH = 4 * 2**30


def memory() -> Path | None:
    """A directory in memory; None if there is none, or too little room in it."""
    if os.access(_MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(_MEMORY).free >= _ENOUGH:
        return _MEMORY
    return None
