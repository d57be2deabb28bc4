"""What is not installed is told with the line that installs it.

The core needs numpy alone; what else a door or a database needs, an extra brings.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dbanon.errors.usage import UsageError

__all__ = ["MissingDependency", "extras_told", "missing_extra"]

# The extra that brings a package, and the package as people write it.
_BROUGHT = {
    "alembic": ("sqlite", "Alembic"),
    "click": ("cli", "click"),
    "deltalake": ("delta", "deltalake"),
    "duckdb": ("duckdb", "duckdb"),
    "highspy": ("bound", "highspy"),
    "jinja2": ("report", "Jinja2"),
    "matplotlib": ("plot", "matplotlib"),
    "opendp": ("dp", "OpenDP"),
    "pandas": ("frame", "pandas"),
    "psycopg": ("postgres", "psycopg"),
    "pyarrow": ("arrow", "pyarrow"),
    "pydantic": ("job", "pydantic"),
    "pydantic_core": ("job", "pydantic"),
    "pymysql": ("mariadb", "PyMySQL"),
    "pyiceberg": ("iceberg", "pyiceberg"),
    "rich": ("cli", "rich"),
    "sklearn": ("sklearn", "scikit-learn"),
    "sqlalchemy": ("sqlite", "SQLAlchemy"),
    "yaml": ("job", "PyYAML"),
}


class MissingDependency(UsageError):
    """A package that this needs is not installed."""

    code = "missing_dependency"
    sqlstate = "0A000"

    @classmethod
    def of_extra(cls, what: str, package: str, extra: str) -> MissingDependency:
        """The error for what an extra brings."""
        return cls(
            f"{what} needs the package {package}, which is not installed.",
            hint=f"Install it with: pip install 'dbanon[{extra}]'; in a checkout: pip install"
            f" '.[{extra}]'.",
        )

    @classmethod
    def of_postgresql(cls, package: str = "psycopg") -> MissingDependency:
        """The error where a database of PostgreSQL is named, and its driver is not here."""
        return cls.of_extra("PostgreSQL", package, "postgres")

    @classmethod
    def of_mariadb(cls, package: str = "PyMySQL") -> MissingDependency:
        """The error where a database of MariaDB is named, and its driver is not here."""
        return cls.of_extra("MariaDB", package, "mariadb")


def missing_extra(error: BaseException) -> MissingDependency | None:
    """The error that names the extra; None where no package of an extra is missing."""
    if not isinstance(error, ModuleNotFoundError):
        return None
    found = _BROUGHT.get((error.name or "").partition(".")[0])
    return found and MissingDependency.of_extra("This", found[1], found[0])


@contextmanager
def extras_told() -> Iterator[None]:
    """Tell of a package that is missing in the block, or in the function, by its extra.

    Raises
    ------
    MissingDependency : an extra brings the package.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        told = missing_extra(error)
        if told is None:
            raise
        raise told from None
