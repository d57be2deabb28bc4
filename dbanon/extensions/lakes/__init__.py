"""Lakes: Delta and Iceberg tables as sources, and Iceberg tables as destinations of exports.

A source is read through an *origin*, which streams its rows. ``Extension`` names functions by their
modules and names, so that they are imported on first use.
"""

from __future__ import annotations

from dbanon.data.extension import Extension, TableFormat

EXTENSION = Extension(
    "lakes",
    table_formats=(
        TableFormat(
            "delta:",
            "Delta",
            open_origin="dbanon.extensions.lakes.origins:DeltaOrigin",
            reads_folders=True,
        ),
        TableFormat(
            "iceberg:",
            "Iceberg",
            open_origin="dbanon.extensions.lakes.origins:open_iceberg_origin",
            parse_destination="dbanon.extensions.lakes.iceberg_table:parse_iceberg_table",
        ),
    ),
)
