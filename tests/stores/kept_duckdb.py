"""DuckDB files that stay open between the queries of a test: opening one takes 15 ms, a statement
1.

No other process can use an open file. It is closed before anything else touches it, before it is
opened in another way, and before another process starts: from then on the test opens it each time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import duckdb

from dbanon.stores import files

_PROCESSES = {"subprocess.Popen", "os.fork", "os.posix_spawn", "os.forkpty"}
_LISTS = {"os.listdir", "os.scandir"}
_FILES = {"open", "os.remove", "os.rename", "os.chmod", "shutil.copyfile", "shutil.move"}

_open_connections: dict[str, duckdb.DuckDBPyConnection] = {}
_looked_at: set[str] = set()
_exclusive = False
_connect = duckdb.connect
_start = BaseProcess.start


@contextmanager
def connection_to(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to the file."""
    if _exclusive or threading.current_thread() is not threading.main_thread():
        with _connect(str(path)) as connection:
            yield connection
        return
    _looked_at.add(str(path))
    try:
        yield _open(str(path)).cursor()
    except BaseException:
        close_kept()
        raise


def _open(name: str) -> duckdb.DuckDBPyConnection:
    connection = _open_connections.get(name)
    if connection is None:
        connection = _open_connections[name] = _connect(name)
    return connection


def keep_files() -> None:
    """Begin a test: what it looks at may stay open."""
    global _exclusive
    close_kept()
    _looked_at.clear()
    _exclusive = False


def close_kept() -> None:
    """Close all files."""
    while _open_connections:
        _open_connections.popitem()[1].close()


def _opened(database: Any = ":memory:", read_only: bool = False, *args: Any, **how: Any) -> Any:
    if read_only or args or how:
        if str(database) in _open_connections:
            close_kept()
    elif (
        str(database) in _looked_at
        and not _exclusive
        and threading.current_thread() is threading.main_thread()
    ):
        # It was closed for what opens it in another way, and stays open from now on.
        _open(str(database))
    return _connect(database, read_only, *args, **how)


def _before(event: str, arguments: tuple[Any, ...]) -> None:
    # When a process ends, only the hook of this module is left.
    if event in (_PROCESSES or ()):
        _let_go()
    elif _open_connections and (
        (event in _FILES and _is_kept(arguments)) or (event in _LISTS and _holds_kept(arguments[0]))
    ):
        close_kept()


def _started(process: BaseProcess) -> None:
    # Processes started by a fork server trigger no event here.
    _let_go()
    _start(process)


def _let_go() -> None:
    global _exclusive
    _exclusive = True
    close_kept()


def _is_kept(arguments: tuple[Any, ...]) -> bool:
    # dbanon reads the first bytes only, before it opens the file in turn.
    caller = sys._getframe(2)
    while caller.f_globals["__name__"] == "pathlib" and caller.f_back is not None:
        caller = caller.f_back
    if caller.f_globals["__name__"] == files.__name__:
        return False
    # Skips the shutdown in which DuckDB writes pending changes into the file.
    return any(
        isinstance(name, (str, Path)) and str(name).removesuffix(".wal") in _open_connections
        for name in arguments[:2]
    )


def _holds_kept(folder: object) -> bool:
    # DuckDB keeps changes that are not yet in the file in a second file next to it.
    return any(str(folder) == str(Path(name).parent) for name in _open_connections)


duckdb.connect = _opened
BaseProcess.start = _started  # type: ignore[method-assign]
sys.addaudithook(_before)
