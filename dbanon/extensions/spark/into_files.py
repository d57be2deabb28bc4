"""Publish a cluster's release as a directory of Parquet files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import types

from dbanon.data.schema import Attribute
from dbanon.errors import DatabaseFailure, InvalidParameter, OutputExists
from dbanon.extensions.spark.session import JavaObject
from dbanon.extensions.spark.staging import (
    count_combinations,
    pair_released_columns,
    require_staged_counts,
)
from dbanon.extensions.spark.tasks import translate_spark_errors
from dbanon.job.job import Job
from dbanon.release.report import Report
from dbanon.sessions.base import Relation
from dbanon.stores.scratch import staged_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPORT_FILE = "_dbanon.json"
# File systems that rename a directory atomically.
_ATOMIC_FILE_SYSTEMS = ("file", "hdfs", "viewfs")


@dataclass
class ParquetTarget:
    """A directory of Parquet files, staged next to its destination and published by a rename.

    It implements ``staging.ReleaseTarget``.

    Parameters
    ----------
    session : a session of the cluster, all of whose machines can access the directory.
    directory : the path to create; it must not exist.
    job, release_id : the release's job and id.
    """

    session: SparkSession
    directory: str
    job: Job
    release_id: str

    def prepare(self, attributes: Sequence[Attribute], relation: Relation | None) -> None:
        """Check the destination.

        Raises
        ------
        OutputExists : the directory exists.
        InvalidParameter : the file system cannot rename atomically, or an option needs a database.
        """
        job = self.job
        if job.if_exists != "error" or job.output_kind != "table":
            raise InvalidParameter(
                "A directory of Parquet files can be neither replaced nor shown by a view, because"
                " that would not be atomic.",
                hint="Leave `if_exists` and `output_kind` out, and name a new directory.",
            )
        with translate_spark_errors("examining the output directory"):
            scheme = str(self._file_system(self.directory).getScheme())
            exists = self._exists(self.directory)
        if scheme not in _ATOMIC_FILE_SYSTEMS:
            raise InvalidParameter(
                f"Renaming a directory is not atomic on a file system of type {scheme}.",
                hint="Name a directory of HDFS or of a disk that all workers have, or release into"
                " PostgreSQL.",
            )
        if exists:
            raise self._output_exists()

    def record_failure(self, elapsed_seconds: float, error: BaseException) -> None:
        """Do nothing: files have no ledger."""

    def publish(
        self, rows: DataFrame, report: Report, elapsed_seconds: Callable[[], float]
    ) -> Report:
        """Write the files, recount them, and rename the directory.

        Raises
        ------
        OutputExists : the directory was created in the meantime.
        RecountFailed : the written rows or classes differ from the report.
        """
        staging_path = self._staging_path()
        try:
            with translate_spark_errors("staging the release"):
                # Only this account has access until the recount, whatever the umask allows. Then
                # the directory gets the mode of other new directories.
                self._file_system(staging_path).mkdirs(
                    self._hadoop_path(staging_path), self._permission("700")
                )
                options = {"compression": "zstd", **self._plain_encodings(rows)}
                rows.write.mode("append").options(**options).parquet(staging_path)
            self._require_same_counts(staging_path, rows, report)
            report = report.with_request(
                output=self.directory, output_kind="parquet"
            ).with_provenance(
                release_id=self.release_id,
                relation=self.directory,
                seconds={**report.seconds, "total": elapsed_seconds()},
            )
            with translate_spark_errors("writing the report"):
                self._write_text(
                    f"{staging_path}/{REPORT_FILE}", json.dumps(report.to_dict(), indent=1)
                )
            with translate_spark_errors("moving the release into place"):
                self._file_system(staging_path).setPermission(
                    self._hadoop_path(staging_path), self._permission(None)
                )
            self._rename(staging_path)
        except BaseException:
            with suppress(Exception):
                self._file_system(staging_path).delete(self._hadoop_path(staging_path), True)
            raise
        return report

    def _plain_encodings(self, rows: DataFrame) -> dict[str, str]:
        """Return options that write released floating-point columns without a dictionary.

        The rows of a class follow each other, so compression removes their repeated values. It does
        so better in plain values than in indices, and a dictionary takes as long as all else.
        """
        fractional = (types.FloatType, types.DoubleType)
        return {
            f"parquet.enable.dictionary#{name}": "false"
            for name, _ in pair_released_columns(self.job, rows.columns)
            if isinstance(rows.schema[name].dataType, fractional)
        }

    def _require_same_counts(self, staging_path: str, rows: DataFrame, report: Report) -> None:
        """Recount the staged files, and compare the counts with those of the cached rows."""
        with translate_spark_errors("reading the staged release"):
            staged_rows = self.session.read.parquet(staging_path)
        require_staged_counts(self.job, rows, report, partial(count_combinations, staged_rows))

    def _staging_path(self) -> str:
        parent, _, name = self.directory.rstrip("/").rpartition("/")
        staging_name = staged_name(name, self.release_id)
        return (
            f"{parent}/{staging_name}" if parent or self.directory.startswith("/") else staging_name
        )

    def _rename(self, staging_path: str) -> None:
        java = self._jvm_packages()
        options = getattr(java.org.apache.hadoop.fs, "Options$Rename")
        # Without the option OVERWRITE.
        no_rename_options = self.session.sparkContext._gateway.new_array(options, 0)  # type: ignore[union-attr]
        try:
            with translate_spark_errors("moving the release into place"):
                source, destination = (
                    self._hadoop_path(staging_path),
                    self._hadoop_path(self.directory),
                )
                file_system = self._file_system(staging_path)
                # If the destination exists, FileContext fails, whereas FileSystem would move the
                # staging directory into it.
                context = java.org.apache.hadoop.fs.FileContext.getFileContext(
                    file_system.getUri(), self._hadoop_conf()
                )
                context.rename(
                    file_system.makeQualified(source),
                    file_system.makeQualified(destination),
                    no_rename_options,
                )
        except DatabaseFailure:
            if self._exists(self.directory):
                raise self._output_exists() from None
            raise

    def _output_exists(self) -> OutputExists:
        return OutputExists(
            "The output directory already exists.",
            hint="Name a directory that does not exist yet.",
        )

    def _write_text(self, name: str, text: str) -> None:
        file = self._file_system(name).create(self._hadoop_path(name), False)
        try:
            file.write(bytearray(text.encode()))
        finally:
            file.close()

    def _exists(self, name: str) -> bool:
        return bool(self._file_system(name).exists(self._hadoop_path(name)))

    def _permission(self, octal_mode: str | None) -> JavaObject:
        """Return Hadoop's object for a mode such as 700; None: the mode of new directories."""
        permission_class = self._jvm_packages().org.apache.hadoop.fs.permission.FsPermission
        if octal_mode is not None:
            return permission_class(octal_mode)
        return permission_class.getDirDefault().applyUMask(
            permission_class.getUMask(self._hadoop_conf())
        )

    def _file_system(self, name: str) -> JavaObject:
        return self._hadoop_path(name).getFileSystem(self._hadoop_conf())

    def _hadoop_path(self, name: str) -> JavaObject:
        return self._jvm_packages().org.apache.hadoop.fs.Path(name)

    def _jvm_packages(self) -> JavaObject:
        return self.session.sparkContext._jvm

    def _hadoop_conf(self) -> JavaObject:
        context: JavaObject = self.session.sparkContext
        return context._jsc.hadoopConfiguration()
