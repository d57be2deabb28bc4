"""The machine that a door stands on."""

from __future__ import annotations

import os


def half_of_memory() -> int:
    """Half of the machine's memory, in bytes: what a job may use where nobody says."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
