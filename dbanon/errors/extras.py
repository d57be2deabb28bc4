"""Errors for missing packages, with the command that installs them.

The core only needs numpy; extras install what interfaces and databases need. The command names the
packages themselves instead of the extra, so that it works however dbanon was installed, and pip
does not look up ``dbanon`` in a registry.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dbanon.errors.usage import UsageError

__all__ = [
    "MissingDependency",
    "error_for_missing_extra",
    "name_missing_extras",
    "quote_requirements",
]

_SQL_REQUIREMENTS = ("sqlalchemy>=2.0", "alembic>=1.13")
# The requirements of each extra, as in pyproject.toml, including nested extras.
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
    "mariadb": ("pymysql>=1.1", "cryptography>=42", *_SQL_REQUIREMENTS),
    "plot": ("matplotlib>=3.7",),
    "postgres": ("psycopg[binary]>=3.2.1", *_SQL_REQUIREMENTS),
    "report": ("jinja2>=3.1",),
    "s3": ("s3fs>=2024.6",),
    "sklearn": ("scikit-learn>=1.6",),
    "spark": ("pyspark>=4.1,<5", "pyarrow>=15", *_SQL_REQUIREMENTS),
    "sqlite": _SQL_REQUIREMENTS,
    "statistics": ("pyreadstat>=1.3",),
    "xlsx": ("python-calamine>=0.3",),
}

# From the name by which a package is imported to the extra that installs it, and the package's
# usual spelling.
_EXTRA_OF_PACKAGE = {
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
    "pyreadstat": ("statistics", "pyreadstat"),
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
    def of_extra(cls, feature: str, package: str, extra: str) -> MissingDependency:
        """Build the error for a package that an extra installs.

        Parameters
        ----------
        feature : what needs the package; the start of the message.
        package : the package's usual spelling.
        extra : the extra that installs it, a key of ``REQUIREMENTS``.
        """
        return cls(
            f"{feature} needs the package {package}, which is not installed.",
            hint=f"Install it with: pip install {quote_requirements(extra)}",
        )

    @classmethod
    def of_postgresql(cls, package: str = "psycopg") -> MissingDependency:
        """Build the error for a PostgreSQL database without an installed driver."""
        return cls.of_extra("PostgreSQL", package, "postgres")

    @classmethod
    def of_spark(cls, reason: str) -> MissingDependency:
        """Build the error for a missing or too old pyspark or Java."""
        return cls(
            reason,
            hint="It needs Java 17 or 21. Install pyspark with:"
            f" pip install {quote_requirements('spark')}",
        )


def quote_requirements(extra: str) -> str:
    """Return the requirements of an extra as arguments of pip, quoted for a shell."""
    return " ".join(f"'{requirement}'" for requirement in REQUIREMENTS[extra])


def error_for_missing_extra(error: BaseException) -> MissingDependency | None:
    """Return the error for a missing package that an extra installs; None for any other error."""
    if not isinstance(error, ModuleNotFoundError):
        return None
    extra_and_package = _EXTRA_OF_PACKAGE.get((error.name or "").partition(".")[0])
    if extra_and_package is None:
        return None
    extra, package = extra_and_package
    return MissingDependency.of_extra("This", package, extra)


@contextmanager
def name_missing_extras() -> Iterator[None]:
    """Convert the import errors of a block or function to errors that name the install command.

    Raises
    ------
    MissingDependency : an extra installs the missing package.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        dependency_error = error_for_missing_extra(error)
        if dependency_error is None:
            raise
        try:
            raise dependency_error from None
        finally:
            # The traceback of the error refers to this frame: do not refer back from it.
            del dependency_error
