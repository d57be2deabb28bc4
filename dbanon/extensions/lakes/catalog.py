"""The catalogs of Iceberg tables, from the settings of pyiceberg."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from dbanon.errors import InvalidParameter, MissingDependency
from dbanon.stores.shared_clients import shared_client

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

# The scheme of URLs of Iceberg tables and catalogs.
ICEBERG = "iceberg:"


def get_catalog(name: str) -> Catalog:
    """Return the open catalog of this name.

    Call this only in a block of ``keep_clients_open``, which closes the catalog at its end.

    Parameters
    ----------
    name : the name of the catalog in the settings of pyiceberg.

    Raises
    ------
    InvalidParameter : the settings have no catalog of this name.
    """
    return shared_client((ICEBERG, name), lambda: _load_catalog(name))


def _load_catalog(name: str) -> Catalog:
    if not import_iceberg("utils.config").Config().get_catalog_config(name):
        raise InvalidParameter(
            f'There are no settings for an Iceberg catalog "{name}".',
            hint=f"Set the environment variable PYICEBERG_CATALOG__{name.upper()}__URI, or add the"
            " catalog to .pyiceberg.yaml in your home directory.",
        )
    catalog: Catalog = import_iceberg("catalog").load_catalog(name)
    return catalog


def import_iceberg(module: str) -> ModuleType:
    """Import a module of pyiceberg; raises MissingDependency."""
    try:
        return import_module(f"pyiceberg.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyiceberg":
            raise
        raise MissingDependency.of_extra("Iceberg", "pyiceberg", "iceberg") from None
