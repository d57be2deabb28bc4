"""Progress for calls with ``progress=True``: a bar in a notebook or on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from dbanon.errors import InvalidParameter
from dbanon.errors.extras import name_missing_extras

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

ProgressCallback = Callable[[str, float], None]
# A function that is called with a phase and its completed share (0 to 1), True for a bar, or None.
ProgressOption: TypeAlias = "ProgressCallback | bool | None"

_SECONDS_BETWEEN_UPDATES = 0.1


@contextmanager
def progress_callback(progress: ProgressOption) -> Iterator[ProgressCallback | None]:
    """Provide the function that a run calls with a phase and its completed share, 0 to 1.

    Raises
    ------
    InvalidParameter : the argument is neither a function nor a boolean.
    """
    if progress is None or progress is False:
        yield None
    elif progress is True:
        with _show_in_notebook() if _is_notebook() else _show_on_terminal() as callback:
            yield callback
    elif callable(progress):
        yield progress
    else:
        raise InvalidParameter(
            "progress must be a function of a phase and a share, or True for a bar."
        )


@name_missing_extras()
def create_bar(stream: TextIO) -> Progress:
    """Create a progress bar for a terminal, not yet visible."""
    # Imported late, since only terminals need it.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description:>8}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        console=Console(file=stream),
        transient=True,
    )


def _is_notebook() -> bool:
    """Return True if a Jupyter kernel runs this process, which can display HTML."""
    ipython = sys.modules.get("IPython")
    return hasattr(ipython and ipython.get_ipython(), "kernel")


@contextmanager
def _show_on_terminal() -> Iterator[ProgressCallback]:
    """Show the command line's bar on a terminal; elsewhere show nothing."""
    if not sys.stderr.isatty():
        yield lambda phase, share: None
        return
    with create_bar(sys.stderr) as bar:
        tasks: dict[str, TaskID] = {}

        def show_phase(phase: str, share: float) -> None:
            if phase not in tasks:
                for earlier_task in tasks.values():
                    bar.update(earlier_task, completed=1.0)
                tasks[phase] = bar.add_task(phase, total=1.0)
            bar.update(tasks[phase], completed=share)

        yield show_phase


@contextmanager
def _show_in_notebook() -> Iterator[ProgressCallback]:
    """Show bars in the output of a notebook cell, with the display protocol instead of widgets."""
    from IPython.display import display

    # ``phases`` has the completed share of each phase.
    start_seconds, last_update, phases = time.monotonic(), 0.0, dict[str, float]()
    show: Any = display
    handle = show(_render(phases, seconds=0.0), raw=True, display_id=True)

    def show_phase(phase: str, share: float) -> None:
        nonlocal last_update
        if phase not in phases:
            # A new phase completes the earlier ones, even if they never reported a share of 1.
            phases.update(dict.fromkeys(phases, 1.0))
        phases[phase] = share
        now = time.monotonic()
        if now - last_update >= _SECONDS_BETWEEN_UPDATES:
            last_update = now
            handle.update(_render(phases, now - start_seconds), raw=True)

    try:
        yield show_phase
        phases.update(dict.fromkeys(phases, 1.0))
    finally:
        handle.update(_render(phases, time.monotonic() - start_seconds), raw=True)


def _render(phases: dict[str, float], seconds: float) -> dict[str, str]:
    """Render the completed shares of phases and the elapsed seconds, by MIME type."""
    from html import escape

    phase_texts = [f"{phase} {100 * share:.0f} %" for phase, share in phases.items()]
    # Keep each bar on one line with its phase.
    label = '<label style="display: inline-block; white-space: nowrap; margin-right: 1.2em">'
    bar = '<progress max="1" style="width: 8em; vertical-align: middle"'
    bars = "".join(
        f'{label}{escape(phase)} {bar} value="{share:.3f}"></progress> {100 * share:.0f} %</label>'
        for phase, share in phases.items()
    )
    return {
        "text/plain": ", ".join([*phase_texts, f"{seconds:.1f} s"]),
        "text/html": f"<div>{bars}{seconds:.1f} s</div>",
    }
