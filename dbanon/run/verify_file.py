"""Looking at a file of a release again: it is recounted by what it says of itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dbanon.errors import (
    ColumnNotFound,
    InsufficientRights,
    InvalidParameter,
    RecountFailed,
    ReleaseNotFound,
    TableNotFound,
)
from dbanon.job.export import PARQUET
from dbanon.job.guarantee import recorded
from dbanon.run.verify import Verification, models_recounted, recount_sql
from dbanon.stores.duckdb.file_counts import file_session
from dbanon.stores.exports.formats import metadata_of
from dbanon.stores.names import RelationName
from dbanon.stores.sql_target import count_classes


def verify_file(
    path: Path, quasi_identifiers: Sequence[str] = (), k: int | None = None
) -> Verification:
    """Recount a Parquet file by GROUP BY.

    Whether it is the file that was exported, its SHA-256 in the ledger says.

    Parameters
    ----------
    quasi_identifiers, k : for files that say none; with those of a release, ``k`` may ask for more.

    Raises
    ------
    RecountFailed : a class holds fewer than k rows.
    ReleaseNotFound : the file says of no release, and neither quasi-identifiers nor k were given.
    TableNotFound, InvalidParameter : there is no such file, or it is no Parquet file.
    """
    if not path.is_file():
        raise TableNotFound(f"There is no file {path}.")
    try:
        said = metadata_of(path)
    except PermissionError:
        raise InsufficientRights(f"The file {path} may not be read.") from None
    except (OSError, ValueError):
        raise InvalidParameter(f"{path} is no Parquet file.") from None
    names = given = tuple(quasi_identifiers)
    if not given:
        if "quasi_identifiers" not in said or "k_requested" not in said:
            raise ReleaseNotFound(
                f"The file {path} says of no release.",
                hint="Name the quasi-identifiers and k to recount it.",
            )
        names = tuple(json.loads(said["quasi_identifiers"]))
        k = int(said["k_requested"]) if k is None else k
    if k is None or k < 2:
        raise InvalidParameter("k must be a whole number, 2 or more.", hint="Add `k`.")
    with file_session(path, PARQUET) as (session, relation):
        for name in names:
            if name not in [attribute.name for attribute in relation.schema.attributes]:
                raise ColumnNotFound(f'The file {path} has no column "{name}".')
        arguments = {} if given else json.loads(said.get("arguments", "{}"))
        guarantee = recorded(k, arguments)
        recount = count_classes(session, relation.name, guarantee.questions(names))
        if recount.smallest < k:
            raise RecountFailed(
                f"The smallest class of {path} holds {recount.smallest} rows, fewer than k = {k}.",
                hint="Withdraw the file, and release it again.",
            )
        models = models_recounted(
            session, relation.name, names, arguments.get("models", []), {}, recount
        )
    return Verification.of(
        str(path),
        names,
        k,
        recount,
        # DuckDB reads a file whose name stands where a relation's does.
        recount_sql(RelationName(None, str(path)), names, guarantee),
        release_id=None if given else said.get("release_id"),
        unchanged=None,
        guarantee=None if given else said.get("guarantee"),
        models=models,
        counted=guarantee.told_of(recount),
    )
