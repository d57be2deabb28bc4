"""Progress for calls with ``progress=True``: a bar in a notebook or on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from dbanon.errors import InvalidParameter
from dbanon.errors.extras import name_missing_extras

if TYPE_CHECKING:
    from rich.progress import Progress

ProgressCallback = Callable[[str, float], None]
# The argument of a call: a function of a phase and its share, True for a bar, or None.
ProgressOption: TypeAlias = "ProgressCallback | bool | None"

_SECONDS_BETWEEN = 0.1


@contextmanager
def progress_callback(progress: ProgressOption) -> Iterator[ProgressCallback | None]:
    """Return the function that a run calls with a phase and its completed share.

    Raises
    ------
    InvalidParameter : the argument is neither a function nor a boolean.
    """
    if progress is None or progress is False:
        yield None
    elif progress is True:
        with _in_notebook() if _is_notebook() else _on_terminal() as callback:
            yield callback
    elif callable(progress):
        yield progress
    else:
        raise InvalidParameter(
            "progress must be a function of a phase and a share, or True for a bar."
        )


@name_missing_extras()
def bar_on(stream: TextIO) -> Progress:
    """Create the bar of a terminal."""
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
    """True if a Jupyter kernel runs this process, which can display HTML."""
    ipython = sys.modules.get("IPython")
    return hasattr(ipython and ipython.get_ipython(), "kernel")


@contextmanager
def _on_terminal() -> Iterator[ProgressCallback]:
    """Show the command line's bar on a terminal; elsewhere show nothing."""
    if not sys.stderr.isatty():
        yield lambda phase, share: None
        return
    with bar_on(sys.stderr) as bar:
        tasks: dict[str, Any] = {}

        def show_phase(phase: str, share: float) -> None:
            if phase not in tasks:
                for over in tasks.values():
                    bar.update(over, completed=1.0)
                tasks[phase] = bar.add_task(phase, total=1.0)
            bar.update(tasks[phase], completed=share)

        yield show_phase


@contextmanager
def _in_notebook() -> Iterator[ProgressCallback]:
    """Show an output that is updated by the kernel's protocol, without widgets."""
    from IPython.display import display

    began, last, phases = time.monotonic(), 0.0, dict[str, float]()
    show: Any = display
    handle = show(_output(phases, 0.0), raw=True, display_id=True)

    def show_phase(phase: str, share: float) -> None:
        nonlocal last
        if phase not in phases:
            # A new phase completes the earlier ones, whatever their last share.
            phases.update(dict.fromkeys(phases, 1.0))
        phases[phase] = share
        now = time.monotonic()
        if now - last >= _SECONDS_BETWEEN:
            last = now
            handle.update(_output(phases, now - began), raw=True)

    try:
        yield show_phase
        phases.update(dict.fromkeys(phases, 1.0))
    finally:
        handle.update(_output(phases, time.monotonic() - began), raw=True)


def _output(phases: dict[str, float], seconds: float) -> dict[str, str]:
    """Render the output as text and HTML."""
    texts = [f"{phase} {100 * share:.0f} %" for phase, share in phases.items()]
    # Keep each bar on one line with its phase.
    label = '<label style="display: inline-block; white-space: nowrap; margin-right: 1.2em">'
    bar = '<progress max="1" style="width: 8em; vertical-align: middle"'
    bars = "".join(
        f'{label}{escape(phase)} {bar} value="{share:.3f}"></progress> {100 * share:.0f} %</label>'
        for phase, share in phases.items()
    )
    return {
        "text/plain": ", ".join([*texts, f"{seconds:.1f} s"]),
        "text/html": f"<div>{bars}{seconds:.1f} s</div>",
    }
