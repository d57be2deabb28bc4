"""Verify an exported Parquet file: recount it with the k and columns from its own metadata."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from dbanon.data.types import JsonMapping, JsonObject
from dbanon.errors import (
    ColumnNotFound,
    InsufficientRights,
    InvalidParameter,
    ReleaseNotFound,
    TableNotFound,
)
from dbanon.job.export import CSV, PARQUET, STATISTICS_FORMATS
from dbanon.job.guarantee_names import guarantee_from_ledger
from dbanon.job.weight import WEIGHT_RECORD
from dbanon.ledger.entry_checks import MALFORMED_ERRORS, is_list_of_strings, require_arguments
from dbanon.run.comparison import recount_models, verify_class_weights
from dbanon.run.verify import (
    Verification,
    build_reader_queries,
    recount_column_sets,
    require_k,
)
from dbanon.sessions.names import RelationName
from dbanon.stores.duckdb.file_counts import open_file_session
from dbanon.stores.exports.formats import metadata_of
from dbanon.stores.sql_counts import count_classes


def verify_file(
    path: Path, quasi_identifiers: Sequence[str] = (), k: int | None = None
) -> Verification:
    """Recount a Parquet file by GROUP BY.

    This does not check that a release exported the file; ``verify_export`` does.

    Parameters
    ----------
    quasi_identifiers, k : required for files without metadata of a release. For files of a release,
        ``k`` may be larger than the one of the release.

    Raises
    ------
    RecountFailed : a class holds fewer than k rows.
    ReleaseNotFound : the file names no release, and no quasi-identifiers and k were passed.
    TableNotFound, InvalidParameter : there is no such file, it is not a Parquet file, or ``k`` is
        smaller than the one of the release.
    """
    if not path.is_file():
        raise TableNotFound(f"There is no file {path}.")
    if (ending := path.suffix.lower().removeprefix(".")) in (CSV, *STATISTICS_FORMATS):
        raise InvalidParameter(
            f"{path} is a {'CSV' if ending == CSV else path.suffix} file, which does not say which"
            " release it is.",
            hint="Compare it with the ledger of its release: name its database as `ledger`. Or"
            f" count it as a table: dbanon verify {shlex.quote(f'file:{path}')}"
            f" {shlex.quote(path.stem)}, with `quasi_identifiers` and `k`; or verify a Parquet"
            " file of the same release.",
        )
    try:
        metadata = metadata_of(path)
    except PermissionError:
        raise InsufficientRights(f"The file {path} may not be read.") from None
    except (OSError, ValueError):
        raise InvalidParameter(f"{path} is not a Parquet file.") from None
    # The names of the caller take precedence over the file's metadata, which is then not used.
    names = user_names = tuple(quasi_identifiers)
    arguments: JsonMapping = {}
    if not user_names:
        names, release_k, arguments = _read_release_metadata(path, metadata)
        if k is not None and k < release_k:
            # There is no ledger here that would show that the classes have changed.
            raise InvalidParameter(
                f"The release in the file {path} has k = {release_k}; it cannot be counted with a"
                " smaller k.",
                hint="Leave `k` out.",
            )
        k = release_k if k is None else k
    if k is None or k < 2:
        raise InvalidParameter("k must be a whole number, 2 or more.", hint="Add `k`.")
    with open_file_session(path, PARQUET) as (session, relation):
        for name in names:
            if name not in [attribute.name for attribute in relation.schema.attributes]:
                raise ColumnNotFound(f'The file {path} has no column "{name}".')
        guarantee = guarantee_from_ledger(k, arguments)
        requests = guarantee.count_requests(names)
        recount = count_classes(session, relation.name, requests)
        if guarantee.classes_have_k_rows:
            require_k(
                guarantee, recount, k, str(path), "Delete the file, and export the release again."
            )
        column_set_counts = recount_column_sets(session, relation.name, names, guarantee, recount)
        models = recount_models(
            session,
            relation.name,
            names,
            recorded_models=arguments.get("models", []),
            # The metadata has none, so models that need a hierarchy are not counted.
            hierarchies={},
            recount=recount,
        )
        design_weight = arguments.get(WEIGHT_RECORD, {})
        verify_class_weights(session, relation.name, names, design_weight, k)
        # DuckDB accepts the path of a file in place of a relation's name.
        path_name = RelationName(None, str(path))
        reader_queries = build_reader_queries(session, relation.name, requests, path_name)
    return Verification.from_recount(
        str(path),
        reader_queries,
        names,
        k,
        guarantee,
        recount,
        release_id=None if user_names else metadata.get("release_id"),
        # Only the ledger, which is not read here, could tell.
        unchanged=None,
        # A field of the result, not the parameter above: the sentence that the file states.
        guarantee=None if user_names else metadata.get("guarantee"),
        models=models,
        also_k=column_set_counts,
    )


def _read_release_metadata(
    path: Path, metadata: Mapping[str, str]
) -> tuple[tuple[str, ...], int, JsonObject]:
    """Read a release's quasi-identifiers and strata, k and arguments from a file's metadata."""
    hint = "To recount it, name its `quasi_identifiers` and `k`."
    if "quasi_identifiers" not in metadata or "k_requested" not in metadata:
        raise ReleaseNotFound(f"The file {path} names no release.", hint=hint)
    try:
        names = json.loads(metadata["quasi_identifiers"])
        k = int(metadata["k_requested"])
        # The file may have been edited, so check every value.
        arguments = dict(require_arguments(json.loads(metadata.get("arguments", "{}"))))
        is_valid = (
            is_list_of_strings(names) and bool(names) and set(arguments.get("by", [])) <= set(names)
        )
    except (*MALFORMED_ERRORS, InvalidParameter):
        is_valid = False
    if not is_valid:
        raise InvalidParameter(f"The release information in the file {path} is broken.", hint=hint)
    return tuple(names), k, arguments
