"""``refine=thorough`` after MDAV on the three reference data sets; 25 CPU seconds for each cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.methods import measured

TITLE = """# mdav, refine=thorough, measured

100 SSE/SST on z-scores, before rounding to column types, and CPU seconds in brackets, at the
default budget; one row for each seed. Made by `python -m benchmarks thorough`, which `make bench`
leaves out because it takes some five minutes.

"""
SEEDS = (0,)


def run(quick: bool = False) -> str:
    """Markdown of loss and CPU seconds."""
    return TITLE + measured(_seeds, quick)


def _seeds(attributes: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for seed in SEEDS:
        yield f"mdav, refine=thorough, seed {seed}", {"refine": "thorough", "seed": seed}
