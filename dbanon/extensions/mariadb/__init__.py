"""MariaDB as source and target."""

from __future__ import annotations

from dbanon.data.extension import Database, Extension

EXTENSION = Extension(
    "mariadb",
    databases=(
        Database(
            ("mysql", "mariadb"),
            "dbanon.extensions.mariadb.open:open_mariadb_store",
            label="MariaDB",
            # The extra of the package dbanon that installs the driver.
            extra="mariadb",
            # No statement renames a view and its table at once.
            has_views=False,
            has_chains=False,
        ),
    ),
)
