"""Publish a cluster's release as a directory of Parquet files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from dbanon.data.schema import Attribute
from dbanon.errors import DatabaseFailure, InvalidParameter, OutputExists
from dbanon.job.job import Job
from dbanon.release.report import Report
from dbanon.sessions.base import Relation
from dbanon.spark.staging import counted_in, require_staged
from dbanon.spark.tasks import translated
from dbanon.stores.scratch import staged_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPORT = "_dbanon.json"
# File systems that rename a directory atomically.
_ATOMIC = ("file", "hdfs", "viewfs")


@dataclass
class ParquetTarget:
    """A directory of Parquet files, staged next to its destination and published by a rename.

    Parameters
    ----------
    session : of the cluster, which can access the directory.
    directory : to create; it must not exist.
    job, release_id : of the release.
    """

    session: SparkSession
    directory: str
    job: Job
    release_id: str

    def prepare(self, attributes: Sequence[Attribute], relation: Relation | None) -> None:
        """Check the destination.

        Raises
        ------
        OutputExists : the name is taken.
        InvalidParameter : renames are not atomic there, or an option applies to databases only.
        """
        job = self.job
        if job.if_exists != "error" or job.output_kind != "table":
            raise InvalidParameter(
                "A directory of Parquet files can be neither replaced nor shown by a view, because"
                " that would not be atomic.",
                hint="Leave `if_exists` and `output_kind` out, and name a new directory.",
            )
        with translated("the output directory was examined"):
            scheme = str(self._system(self.directory).getScheme())
            is_taken = self._exists(self.directory)
        if scheme not in _ATOMIC:
            raise InvalidParameter(
                f"Renaming a directory is not atomic on a file system of type {scheme}.",
                hint="Name a directory of HDFS or of a disk that all workers have, or release into"
                " PostgreSQL.",
            )
        if is_taken:
            raise self._output_exists()

    def failed(self, elapsed: float, error: BaseException) -> None:
        """Do nothing: files have no ledger."""

    def publish(self, rows: DataFrame, report: Report, elapsed: Callable[[], float]) -> Report:
        """Write, read back, count and rename; raises as ``ReleaseTarget``, and OutputExists."""
        staging_path = self._staging_path()
        try:
            with translated("the release was staged"):
                # Restrict access to this account until the recount, regardless of the umask.
                self._system(staging_path).mkdirs(self._path(staging_path), self._permission("700"))
                rows.write.mode("append").option("compression", "zstd").parquet(staging_path)
            self._require_same(staging_path, rows, report)
            report = report.requested(output=self.directory, output_kind="parquet").with_provenance(
                release_id=self.release_id,
                relation=self.directory,
                seconds={**report.seconds, "total": elapsed()},
            )
            with translated("the report was written"):
                self._write(f"{staging_path}/{REPORT}", json.dumps(report.to_dict(), indent=1))
            with translated("the release was moved into place"):
                self._system(staging_path).setPermission(
                    self._path(staging_path), self._permission(None)
                )
            self._rename(staging_path)
        except BaseException:
            with suppress(Exception):
                self._system(staging_path).delete(self._path(staging_path), True)
            raise
        return report

    def _require_same(self, staging_path: str, rows: DataFrame, report: Report) -> None:
        with translated("the staged release was read"):
            staged_rows = self.session.read.parquet(staging_path)
        require_staged(self.job, rows, report, partial(counted_in, staged_rows))

    def _staging_path(self) -> str:
        parent, _, name = self.directory.rstrip("/").rpartition("/")
        staging_name = staged_name(name, self.release_id)
        return (
            f"{parent}/{staging_name}" if parent or self.directory.startswith("/") else staging_name
        )

    def _rename(self, staging_path: str) -> None:
        java = self._java()
        options = getattr(java.org.apache.hadoop.fs, "Options$Rename")
        no_options = self.session.sparkContext._gateway.new_array(options, 0)  # type: ignore[union-attr]
        try:
            with translated("the release was moved into place"):
                source, destination = self._path(staging_path), self._path(self.directory)
                system = self._system(staging_path)
                # FileSystem.rename would move it into an existing directory of the same name.
                context = java.org.apache.hadoop.fs.FileContext.getFileContext(
                    system.getUri(), self._conf()
                )
                context.rename(
                    system.makeQualified(source), system.makeQualified(destination), no_options
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

    def _write(self, name: str, text: str) -> None:
        file = self._system(name).create(self._path(name), False)
        try:
            file.write(bytearray(text.encode()))
        finally:
            file.close()

    def _exists(self, name: str) -> bool:
        return bool(self._system(name).exists(self._path(name)))

    def _permission(self, octal: str | None) -> Any:
        """Hadoop's permission object; without ``octal``, the default for directories."""
        permission_class = self._java().org.apache.hadoop.fs.permission.FsPermission
        if octal is not None:
            return permission_class(octal)
        return permission_class.getDirDefault().applyUMask(permission_class.getUMask(self._conf()))

    def _system(self, name: str) -> Any:
        return self._path(name).getFileSystem(self._conf())

    def _path(self, name: str) -> Any:
        return self._java().org.apache.hadoop.fs.Path(name)

    def _java(self) -> Any:
        return self.session.sparkContext._jvm

    def _conf(self) -> Any:
        context: Any = self.session.sparkContext
        return context._jsc.hadoopConfiguration()
