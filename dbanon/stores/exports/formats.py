"""Write rows as files that disclose nothing but the rows, and when they were written."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterable, Mapping
from typing import BinaryIO

import pyarrow as pa
from pyarrow import csv, parquet

from dbanon.errors import FormulaInText
from dbanon.job.export import PARQUET, SEPARATORS, STATISTICS_FORMATS, Export
from dbanon.stores.exports.destinations import Destination
from dbanon.stores.exports.formulas import are_formulas, escape_formulas

# Rows per row group of a Parquet file. Row groups disclose nothing: the classes, and the rows of a
# class, are in random order.
GROUP_ROWS = 131_072
# Maximum bytes of a column's dictionary per row group. Arrow's default is 1 MiB; with less, columns
# of nearly unique texts switch to plain encoding sooner, and take fewer bytes.
_DICTIONARY_BYTES = 1 << 18
# Prefix of dbanon's keys in the metadata of a Parquet file.
METADATA_PREFIX = b"dbanon."


def write(
    file: BinaryIO,
    export: Export,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    quasi_identifiers: Collection[str],
    metadata: Mapping[str, str],
    label_codes: Mapping[str, Mapping[str, int]],
) -> None:
    """Write rows to a file.

    Parameters
    ----------
    quasi_identifiers : the only columns whose minima and maxima Parquet stores by default. Readers
        of the file can compute them anyway, but catalogs may copy such statistics to places that
        others can read.
    metadata : key-value metadata of a Parquet file.
    label_codes : the numbers that labels keep in files of SPSS and Stata, by column and label.

    Raises
    ------
    FormulaInText : a spreadsheet would run a text of the CSV file as a formula.
    UnsupportedType, InvalidParameter : a file of SPSS, Stata or SAS cannot hold the rows; see
        ``write_statistics_file``.
    """
    if export.format == PARQUET:
        _write_parquet(file, export, schema, batches, quasi_identifiers, metadata)
        return
    if export.format in STATISTICS_FORMATS:
        # Imports pandas, which other formats do not need.
        from dbanon.stores.exports.statistics_files import write_statistics_file

        write_statistics_file(file, export.format, schema, batches, label_codes)
        return
    if export.formulas != "keep":
        _refuse_formulas(
            "the header",
            are_formulas(pa.array(schema.names, pa.string())),
            hint='Rename the column in a view, set "formulas" of the export to "keep" if no'
            " spreadsheet reads the file, or export Parquet.",
        )
    if export.byte_order_mark:
        file.write(codecs.BOM_UTF8)
    options = csv.WriteOptions(
        include_header=True, quoting_style="needed", delimiter=SEPARATORS[export.separator]
    )
    with csv.CSVWriter(file, _text_schema(schema, export), write_options=options) as writer:
        for batch in batches:
            writer.write_batch(_with_decimal_marks(_apply_formula_option(batch, export), export))


def require_writer(export: Export) -> None:
    """Check that the packages that write an export are installed; raises MissingDependency."""
    if export.format in STATISTICS_FORMATS:
        from dbanon.stores.exports.statistics_files import import_writers

        import_writers()


def _write_parquet(
    file: BinaryIO,
    export: Export,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    quasi_identifiers: Collection[str],
    metadata: Mapping[str, str],
) -> None:
    # True stands for all columns, and False for none.
    columns_with_statistics: bool | list[str] = export.statistics or (
        [name for name in schema.names if name in quasi_identifiers] or False
    )
    # Rows of a class are adjacent and have equal values, so zstd or gzip alone makes floats smaller
    # than a dictionary does.
    dictionary_columns = [field.name for field in schema if not pa.types.is_floating(field.type)]
    with parquet.ParquetWriter(
        file,
        schema,
        compression=export.compression.upper() if export.compression != "none" else "NONE",
        write_statistics=columns_with_statistics,
        use_dictionary=dictionary_columns if export.compression in ("zstd", "gzip") else True,
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
        store_schema=False,
        # The index would hold the minimum and maximum of each page.
        write_page_index=False,
    ) as writer:
        for batch in batches:
            writer.write_batch(batch, row_group_size=GROUP_ROWS)
        prefix = METADATA_PREFIX.decode()
        writer.add_key_value_metadata({prefix + name: text for name, text in metadata.items()})


def _needs_decimal_mark(field: pa.Field, export: Export) -> bool:
    """Return True if a column's values need a decimal mark other than the point."""
    is_fraction = pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
    return bool(is_fraction and export.decimal != ".")


def _text_schema(schema: pa.Schema, export: Export) -> pa.Schema:
    """Return the schema, with text as the type of columns that need another decimal mark."""
    return pa.schema(
        [
            field.with_type(pa.string()) if _needs_decimal_mark(field, export) else field
            for field in schema
        ]
    )


def _with_decimal_marks(batch: pa.RecordBatch, export: Export) -> pa.RecordBatch:
    """Return the batch, in which numbers become text if they need another decimal mark."""
    import pyarrow.compute as pc

    columns = [
        pc.replace_substring(pc.cast(column, pa.string()), ".", export.decimal)
        if _needs_decimal_mark(field, export)
        else column
        for field, column in zip(batch.schema, batch.columns, strict=True)
    ]
    return pa.record_batch(columns, schema=_text_schema(batch.schema, export))


def _apply_formula_option(batch: pa.RecordBatch, export: Export) -> pa.RecordBatch:
    """Keep, refuse or escape formulas, as the export's option says; returns the resulting batch."""
    if export.formulas == "keep":
        return batch
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_string(column.type):
            if export.formulas == "error":
                _refuse_formulas(
                    f'column "{name}"',
                    are_formulas(column),
                    hint='Set "formulas" of the export to "escape", which puts an apostrophe before'
                    ' each; or to "keep", if no spreadsheet reads the file; or export Parquet.',
                )
            column = escape_formulas(column)
        columns.append(column)
    return pa.record_batch(columns, schema=batch.schema)


def _refuse_formulas(subject: str, is_formula: pa.Array, *, hint: str) -> None:
    """Raise FormulaInText if any text is a formula.

    Parameters
    ----------
    subject : what holds the texts, for the message.
    is_formula : Arrow array of booleans, one per text.
    """
    import pyarrow.compute as pc

    count = pc.sum(is_formula).as_py() or 0
    if count:
        raise FormulaInText(
            f"Spreadsheets would run texts of {subject} as formulas: {count} of the examined texts"
            " have =, +, -, @, a tab or a line break at the start, or after a comma,"
            " semicolon, tab or line break. Nothing was published.",
            hint=hint,
        )


def metadata_of(file_path: Destination) -> dict[str, str]:
    """Read dbanon's metadata from a Parquet file; empty if dbanon did not write it.

    Raises
    ------
    ValueError, OSError : the file is not Parquet or cannot be read.
    """
    with file_path.open("rb") as file:
        metadata = parquet.read_metadata(file).metadata or {}
    return {
        key.removeprefix(METADATA_PREFIX).decode(): value.decode()
        for key, value in metadata.items()
        if key.startswith(METADATA_PREFIX)
    }
