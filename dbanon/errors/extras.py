"""Errors for packages that are not installed, with the command that installs them.

The core needs numpy alone; what else a door or a database needs, an extra brings. The command names
the packages themselves: it works beside any installation of dbanon, from a checkout or a wheel, and
asks no registry for the name ``dbanon``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dbanon.errors.usage import UsageError

__all__ = ["MissingDependency", "extras_told", "missing_extra", "quoted_requirements"]

_SQL = ("sqlalchemy>=2.0", "alembic>=1.13")
# What each extra installs, as in pyproject.toml, with the extras that it includes.
REQUIREMENTS = {
    "arrow": ("pyarrow>=15",),
    "az": ("adlfs>=2024.7",),
    "bound": ("highspy>=1.8",),
    "cli": ("click>=8.2", "rich>=13"),
    "delta": ("deltalake>=1.1",),
    "dp": ("opendp>=0.16",),
    "duckdb": ("duckdb>=2.0", "pyarrow>=15"),
    "frame": ("pandas>=2.0", "pyarrow>=15"),
    "gs": ("gcsfs>=2024.6",),
    "iceberg": ("pyiceberg[sql-sqlite]>=0.10",),
    "job": ("pydantic>=2.7", "pyyaml>=6"),
    "mariadb": ("pymysql>=1.1", "cryptography>=42", *_SQL),
    "plot": ("matplotlib>=3.7",),
    "postgres": ("psycopg[binary]>=3.2.1", *_SQL),
    "report": ("jinja2>=3.1",),
    "s3": ("s3fs>=2024.6",),
    "sklearn": ("scikit-learn>=1.6",),
    "spark": ("pyspark>=4.1,<5", "pyarrow>=15", *_SQL),
    "sqlite": _SQL,
    "xlsx": ("python-calamine>=0.3",),
}

# The extra that brings a package, and the package as people write it.
_BROUGHT = {
    "alembic": ("sqlite", "Alembic"),
    "click": ("cli", "click"),
    "cryptography": ("mariadb", "cryptography"),
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
    "python_calamine": ("xlsx", "python-calamine"),
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
            hint=f"Install it with: pip install {quoted_requirements(extra)}",
        )

    @classmethod
    def of_postgresql(cls, package: str = "psycopg") -> MissingDependency:
        """The error where a database of PostgreSQL is named, and its driver is not here."""
        return cls.of_extra("PostgreSQL", package, "postgres")

    @classmethod
    def of_mariadb(cls, package: str = "PyMySQL") -> MissingDependency:
        """The error where a database of MariaDB is named, and its driver is not here."""
        return cls.of_extra("MariaDB", package, "mariadb")

    @classmethod
    def of_spark(cls, reason: str) -> MissingDependency:
        """The error where Spark cannot start: pyspark or Java is missing, or too old."""
        return cls(
            reason,
            hint="It needs a Java of 17 or 21. Install pyspark with:"
            f" pip install {quoted_requirements('spark')}",
        )


def quoted_requirements(extra: str) -> str:
    """The requirements of an extra as arguments of pip, quoted for a shell."""
    return " ".join(f"'{requirement}'" for requirement in REQUIREMENTS[extra])


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
        try:
            raise told from None
        finally:
            del told
