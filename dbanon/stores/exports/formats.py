"""Writing batches of rows as Parquet or CSV, and what such files would tell beside their rows."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterable, Mapping
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import csv, parquet

from dbanon.errors import FormulaInText
from dbanon.job.export import PARQUET, SEPARATORS, Export
from dbanon.stores.exports.formulas import escaped, formulas

# Rows of a row group: they follow the random order of the release.
GROUP_ROWS = 131_072
# Of a group's dictionary. A column of nearly unique texts finds sooner than by Arrow's usual MiB
# that it has none, and takes fewer bytes, too.
_DICTIONARY_BYTES = 1 << 18
METADATA = b"dbanon."


def write(
    file: BinaryIO,
    export: Export,
    schema: pa.Schema,
    pieces: Iterable[pa.RecordBatch],
    *,
    quasi_identifiers: Collection[str],
    metadata: Mapping[str, str],
) -> None:
    """Write rows to a file.

    Parameters
    ----------
    quasi_identifiers : the columns whose minima and maxima Parquet may have: the rows tell them to
        whoever has these, but catalogs copy them to where others read.
    metadata : what a Parquet file says of its release.

    Raises
    ------
    FormulaInText : a spreadsheet would run a text of a CSV file.
    """
    if export.format == PARQUET:
        _write_parquet(file, export, schema, pieces, quasi_identifiers, metadata)
        return
    header = pa.array(schema.names, pa.string())
    _refuse(export, "the header", formulas(header))
    if export.byte_order_mark:
        file.write(codecs.BOM_UTF8)
    options = csv.WriteOptions(
        include_header=True, quoting_style="needed", delimiter=SEPARATORS[export.separator]
    )
    with csv.CSVWriter(file, _with_marks(schema, export), write_options=options) as writer:
        for batch in pieces:
            writer.write_batch(_marked(_harmless(batch, export), export))


def _write_parquet(
    file: BinaryIO,
    export: Export,
    schema: pa.Schema,
    pieces: Iterable[pa.RecordBatch],
    quasi_identifiers: Collection[str],
    metadata: Mapping[str, str],
) -> None:
    named = [name for name in schema.names if name in quasi_identifiers]
    # Numbers of a class stand together: zstd and gzip find that, sooner than through a dictionary.
    others = [field.name for field in schema if not pa.types.is_floating(field.type)]
    with parquet.ParquetWriter(
        file,
        schema,
        compression=export.compression.upper() if export.compression != "none" else "NONE",
        write_statistics=True if export.statistics else named or False,
        use_dictionary=others if export.compression in ("zstd", "gzip") else True,
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
        store_schema=False,
        write_page_index=False,
    ) as writer:
        for batch in pieces:
            writer.write_batch(batch, row_group_size=GROUP_ROWS)
        prefix = METADATA.decode()
        writer.add_key_value_metadata({prefix + name: text for name, text in metadata.items()})


def _has_mark(field: pa.Field, export: Export) -> bool:
    """Whether the values of a column have a decimal mark that is no point."""
    is_fraction = pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
    return bool(is_fraction and export.decimal != ".")


def _with_marks(schema: pa.Schema, export: Export) -> pa.Schema:
    """The schema with texts where the decimal mark is no point."""
    return pa.schema(
        [field.with_type(pa.string()) if _has_mark(field, export) else field for field in schema]
    )


def _marked(batch: pa.RecordBatch, export: Export) -> pa.RecordBatch:
    """The batch with the decimal mark of the export."""
    import pyarrow.compute as pc

    columns = [
        pc.replace_substring(pc.cast(column, pa.string()), ".", export.decimal)
        if _has_mark(field, export)
        else column
        for field, column in zip(batch.schema, batch.columns, strict=True)
    ]
    return pa.record_batch(columns, schema=_with_marks(batch.schema, export))


def _harmless(batch: pa.RecordBatch, export: Export) -> pa.RecordBatch:
    """The batch with texts that spreadsheets do not run."""
    if export.formulas == "keep":
        return batch
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_string(column.type):
            _refuse(export, f'column "{name}"', formulas(column))
            column = escaped(column)
        columns.append(column)
    return pa.record_batch(columns, schema=batch.schema)


def _refuse(export: Export, where: str, found: Any) -> None:
    import pyarrow.compute as pc

    count = pc.sum(found).as_py() or 0
    if count and (export.formulas == "error" or where == "the header"):
        raise FormulaInText(
            f"Spreadsheets would run texts of {where} as formulas: {count} of those that were"
            " looked at begin with =, +, -, @, a tab or a line's end, or do so behind a comma,"
            " semicolon, tab or line's end in them. Nothing was published.",
            hint=(
                "Set formulas of the export to escape, which puts an apostrophe before them, or"
                " to keep if no spreadsheet reads the file, or export Parquet."
            ),
        )


def metadata_of(place: Any) -> dict[str, str]:
    """What a Parquet file says of its release; nothing where it is of nobody's here.

    Raises
    ------
    ValueError, OSError : it is no Parquet file.
    """
    with place.open("rb") as file:
        found = parquet.read_metadata(file).metadata or {}
    return {
        key.removeprefix(METADATA).decode(): value.decode()
        for key, value in found.items()
        if key.startswith(METADATA)
    }
