"""Extensions: optional parts of dbanon, or other packages, that add to the core.

The core imports no extension. Each extension has a record, an ``Extension``, which names locations
in the form ``module:name``. These are imported on first use, so that reading all records is cheap.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import field
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonObject
from dbanon.errors import ExtensionInvalid

T = TypeVar("T")

# The folders of dbanon/extensions.
BUILT_IN = (
    "attacks",
    "bounds",
    "chains",
    "lakes",
    "mariadb",
    "spark",
    "survey",
    "synthesis",
    "workbench",
)
# The schemes of URLs of databases and files that dbanon opens without an extension.
CORE_URL_NAMES = ("postgresql", "postgres", "sqlite", "duckdb", "file")
# Other packages name their records by this group of entry points.
ENTRY_POINTS = "dbanon.extensions"


@dataclass(frozen=True)
class Database:
    """A kind of database, as named in SQLAlchemy URLs and engines.

    Parameters
    ----------
    url_names : the SQLAlchemy dialect names that select it.
    open_store : location of a function that takes a SQLAlchemy engine or ``URL``, and ``on_sql``, a
        function that is called with each SQL statement, or None. It returns a ``ClientStore`` of
        ``dbanon.sessions.store``.
    label : its name in messages, such as "MariaDB".
    extra : the extra of dbanon that installs its driver; empty for databases of other packages.
    has_views : True if a release may be a view.
    has_chains : True if releases may belong to a chain.
    """

    url_names: tuple[str, ...]
    open_store: str
    label: str
    extra: str = ""
    has_views: bool = True
    has_chains: bool = True


@dataclass(frozen=True)
class Command:
    """A command of the command line.

    Parameters
    ----------
    location : the location of a ``click.Command``.
    help : the first paragraph of its help, for the list of all commands.
    """

    location: str
    help: str


@dataclass(frozen=True)
class TableFormat:
    """A kind of table outside of databases, such as those of lakes, named by a prefix.

    Parameters
    ----------
    prefix : what sources and exports of this kind begin with, such as ``iceberg:``.
    label : its name in messages, such as "Iceberg".
    open_origin : location of a function that takes the text after the prefix, and the option
        ``foreign_files``, which says whether to read files of other accounts (see
        ``dbanon.data.files``). It returns an ``Origin`` of ``dbanon.stores.origins``, the interface
        for reading such a table.
    reads_folders : True if the text after the prefix can be a folder on this machine.
    parse_destination : location of a function that takes the text after the prefix of an export's
        path. It returns a ``TableDestination`` of ``dbanon.stores.exports.destinations``. Empty if
        such tables cannot be written.
    """

    prefix: str
    label: str
    open_origin: str
    reads_folders: bool = False
    parse_destination: str = ""


@dataclass(frozen=True)
class Extension:
    """The record of an extension: what the extension adds to the core.

    Parameters
    ----------
    name : its name, for error messages.
    databases : the kinds of databases that it opens.
    table_formats : the kinds of tables outside of databases that it reads or writes.
    commands : its commands, by name.
    engines : by the name that jobs give in ``engine``, the location of a function that runs a job
        on a cluster: ``run(job, source, target, master, tasks, conf)`` returns the ``Report``.
        ``source`` and ``target`` are URLs or directories, ``master`` is the URL of the cluster,
        ``tasks`` the number of parallel tasks (None to choose it), and ``conf`` the settings of the
        cluster by name. Only extensions of dbanon have any.
    runners : by one of five keys, the location of what runs jobs of another kind. ``chain`` is a
        ``JobRunner``, for jobs that belong to a chain (``Job.chain``). ``private`` is a
        ``PrivateRunner``, for differentially private releases. ``private_procedure`` is the
        function that SQL procedures call for the latter. ``private_forecast`` is the
        ``ForecastFunction`` (``dbanon.advice.synthetic_rows``) by which advice forecasts their
        error. ``sample_risk`` is a ``RiskRunner``, for the SQL function that measures a sample (the
        other classes are in ``dbanon.run.job_runner``). Only extensions of dbanon have any.
    evaluations : by the option of ``Policy`` that requests it, the location of a function that
        evaluates a release in the run that makes it: ``evaluate(microdata, planned, release,
        tick)`` returns JSON values. ``planned`` is the run's plan, and ``tick`` is called with the
        completed share, 0 to 1. Only extensions of dbanon have any.
    """

    name: str
    databases: tuple[Database, ...] = ()
    table_formats: tuple[TableFormat, ...] = ()
    commands: Mapping[str, Command] = field(default_factory=dict)
    engines: Mapping[str, str] = field(default_factory=dict)
    runners: Mapping[str, str] = field(default_factory=dict)
    evaluations: Mapping[str, str] = field(default_factory=dict)


@cache
def built_in_extensions() -> tuple[Extension, ...]:
    """The extensions of this package."""
    modules = (import_module(f"dbanon.extensions.{name}") for name in BUILT_IN)
    return tuple(module.EXTENSION for module in modules)


@dataclass(frozen=True)
class InstalledExtensions:
    """The extensions of other packages.

    Parameters
    ----------
    extensions : the extensions that could be loaded, in the order of their entry points' names.
    errors : an error for each extension that could not be loaded.
    """

    extensions: tuple[Extension, ...]
    errors: tuple[ExtensionInvalid, ...]


@cache
def installed_extensions() -> InstalledExtensions:
    """Load the extensions of other packages, by their entry points."""
    # Reading the entry points of all packages takes time, so import only if needed.
    from importlib.metadata import entry_points

    extensions, errors = [], []
    for entry_point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        try:
            extension = entry_point.load()
        except Exception as error:
            errors.append(
                ExtensionInvalid(
                    f"The extension {entry_point.name} cannot be loaded ({type(error).__name__}).",
                    hint=f"Check it with: python -c 'import {entry_point.module}'. To do without"
                    " it, uninstall its package.",
                )
            )
            continue
        if isinstance(extension, Extension):
            extensions.append(extension)
        else:
            errors.append(
                ExtensionInvalid(
                    f"The entry point {entry_point.name} does not refer to an Extension.",
                    hint=f"In its package, make {entry_point.value} a"
                    " dbanon.data.extension.Extension.",
                )
            )
    return InstalledExtensions(tuple(extensions), tuple(errors))


def all_extensions() -> Iterator[Extension]:
    """Yield all extensions, those of this package first.

    Extensions of other packages are loaded only if the caller iterates that far.
    """
    yield from built_in_extensions()
    yield from installed_extensions().extensions


def find_database(url_name: str) -> Database | None:
    """Find the kind of database for a SQLAlchemy dialect name; None if no extension has it."""
    if url_name in CORE_URL_NAMES:
        return None
    for extension in all_extensions():
        for database in extension.databases:
            if url_name in database.url_names:
                return database
    return None


def find_table_format(location: str, *, writable_only: bool = False) -> TableFormat | None:
    """Find the kind of table that a source or an export's path names; None if it names no table.

    Parameters
    ----------
    location : a path, a URL, or a prefix followed by the name of a table.
    writable_only : True to find only kinds of tables that exports can write.
    """
    scheme, colon, name = location.partition(":")
    # Other packages may not take the core's schemes, nor those of URLs, such as s3://bucket/file.
    # A colon within a path makes no prefix.
    may_be_of_other_package = (
        bool(colon)
        and not name.startswith("//")
        and "/" not in scheme
        and scheme not in CORE_URL_NAMES
    )
    for extension in all_extensions() if may_be_of_other_package else built_in_extensions():
        for table_format in extension.table_formats:
            if location.startswith(table_format.prefix):
                is_writable = bool(table_format.parse_destination)
                return table_format if is_writable or not writable_only else None
    return None


def load_evaluation(option: str) -> Callable[..., JsonObject]:
    """Import the function that evaluates a release if this option of ``Policy`` requests it."""
    evaluations = ChainMap(*(dict(extension.evaluations) for extension in built_in_extensions()))
    function: Callable[..., JsonObject] = load(evaluations[option])
    return function


def load_runner(kind: str) -> Any:
    """Import what runs the jobs of a kind, which is a key of ``Extension.runners``."""
    runners = ChainMap(*(dict(extension.runners) for extension in built_in_extensions()))
    return load(runners[kind])


def load(location: str) -> Any:
    """Import the object at a location, ``module:name``."""
    module, _, name = location.partition(":")
    return getattr(import_module(module), name)


class LazyRegistry(MutableMapping[str, T]):
    """The methods or recodings by name, imported on first use.

    Parameters
    ----------
    package : the package of their modules.
    locations : by name, a module of the package and the name in it, ``module:name``.
    """

    def __init__(self, package: str, locations: Mapping[str, str]) -> None:
        self._package = package
        self._entries: dict[str, T | str] = {**locations}

    def __getitem__(self, name: str) -> T:
        entry = self._entries[name]
        if isinstance(entry, str):
            imported_entry: T = load(f"{self._package}.{entry}")
            self._entries[name] = imported_entry
            return imported_entry
        return entry

    def __setitem__(self, name: str, entry: T) -> None:
        self._entries[name] = entry

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries
