"""Open the store of a MariaDB server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dbanon.errors import InvalidParameter, MissingDependency

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

    from dbanon.extensions.mariadb.store import MariadbStore
    from dbanon.sessions.base import OnSql

# By import name, the packages that the extra installs.
_PACKAGES = {"pymysql": "PyMySQL", "cryptography": "cryptography"}


def open_mariadb_store(database: Engine | URL, on_sql: OnSql | None) -> MariadbStore:
    """Open the store of a MariaDB server, for an engine or a URL of SQLAlchemy.

    Raises
    ------
    InvalidParameter : the URL names another driver than PyMySQL.
    MissingDependency : PyMySQL or cryptography is not installed.
    """
    url: Any = getattr(database, "url", database)
    if "+" in url.drivername and url.get_driver_name() != "pymysql":
        raise InvalidParameter(
            f"MariaDB needs the driver PyMySQL, not {url.get_driver_name()}.",
            hint="Write mysql+pymysql://user@host/database.",
        )
    try:
        from dbanon.extensions.mariadb.store import MariadbStore
    except ModuleNotFoundError as error:
        package = _PACKAGES.get(error.name or "")
        if package is None:
            raise
        raise MissingDependency.of_extra("MariaDB", package, "mariadb") from None
    return MariadbStore(database, on_sql)
