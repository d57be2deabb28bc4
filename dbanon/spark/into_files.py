"""A release of a cluster in a directory of Parquet files."""

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
# Where renaming a directory is one step.
_ATOMIC = ("file", "hdfs", "viewfs")


@dataclass
class ParquetTarget:
    """A directory of Parquet files, staged beside the place that it gets by one renaming.

    Parameters
    ----------
    session : of the cluster, which sees the directory.
    directory : that is made; there may be none of its name.
    job, release_id : of the release.
    """

    session: SparkSession
    directory: str
    job: Job
    release_id: str

    def prepare(self, attributes: Sequence[Attribute], relation: Relation | None) -> None:
        """Look at the place.

        Raises
        ------
        OutputExists : something has the name.
        InvalidParameter : renaming is not one step there, or what is asked for is of databases.
        """
        job = self.job
        if job.if_exists != "error" or job.output_kind != "table":
            raise InvalidParameter(
                "A directory of Parquet files is neither replaced nor shown by a view: that would"
                " not be one step.",
                hint="Leave `if_exists` and `output_kind` out, and name a new directory.",
            )
        with translated("the place of the release was looked at"):
            scheme = str(self._system(self.directory).getScheme())
            there = self._exists(self.directory)
        if scheme not in _ATOMIC:
            raise InvalidParameter(
                f"In a store of files of kind {scheme} renaming a directory is many steps.",
                hint="Name a directory of HDFS or of a disk that all workers have, or release into"
                " PostgreSQL.",
            )
        if there:
            raise self._taken()

    def failed(self, elapsed: float, error: BaseException) -> None:
        """Files have no ledger."""

    def publish(self, rows: DataFrame, report: Report, elapsed: Callable[[], float]) -> Report:
        """Write, read back and count, rename; raises as ``Target``, and OutputExists."""
        staged = self._staged()
        try:
            with translated("the release was staged"):
                # For this account alone until it was counted, whatever the umask is.
                self._system(staged).mkdirs(self._path(staged), self._permission("700"))
                rows.write.mode("append").option("compression", "zstd").parquet(staged)
            self._require_same(staged, rows, report)
            report = report.requested(output=self.directory, output_kind="parquet").made(
                release_id=self.release_id,
                relation=self.directory,
                seconds={**report.seconds, "total": elapsed()},
            )
            with translated("the report was written"):
                self._write(f"{staged}/{REPORT}", json.dumps(report.to_dict(), indent=1))
            with translated("the release was given its place"):
                self._system(staged).setPermission(self._path(staged), self._permission(None))
            self._rename(staged)
        except BaseException:
            with suppress(Exception):
                self._system(staged).delete(self._path(staged), True)
            raise
        return report

    def _require_same(self, staged: str, rows: DataFrame, report: Report) -> None:
        with translated("the staged release was looked at"):
            found = self.session.read.parquet(staged)
        require_staged(self.job, rows, report, partial(counted_in, found))

    def _staged(self) -> str:
        place, _, name = self.directory.rstrip("/").rpartition("/")
        beside = staged_name(name, self.release_id)
        return f"{place}/{beside}" if place or self.directory.startswith("/") else beside

    def _rename(self, staged: str) -> None:
        java = self._java()
        options = getattr(java.org.apache.hadoop.fs, "Options$Rename")
        none = self.session.sparkContext._gateway.new_array(options, 0)  # type: ignore[union-attr]
        try:
            with translated("the release was given its place"):
                source, place = self._path(staged), self._path(self.directory)
                system = self._system(staged)
                # That of an open file system would move it into a directory of the same name.
                context = java.org.apache.hadoop.fs.FileContext.getFileContext(
                    system.getUri(), self._conf()
                )
                context.rename(system.makeQualified(source), system.makeQualified(place), none)
        except DatabaseFailure:
            if self._exists(self.directory):
                raise self._taken() from None
            raise

    def _taken(self) -> OutputExists:
        return OutputExists(
            "The directory that the release was to be written to exists already.",
            hint="Name another one.",
        )

    def _write(self, name: str, text: str) -> None:
        file = self._system(name).create(self._path(name), False)
        try:
            file.write(bytearray(text.encode()))
        finally:
            file.close()

    def _exists(self, name: str) -> bool:
        return bool(self._system(name).exists(self._path(name)))

    def _permission(self, given: str | None) -> Any:
        """Rights as Hadoop has them: those of directories under its umask where none are given."""
        known = self._java().org.apache.hadoop.fs.permission.FsPermission
        if given is not None:
            return known(given)
        return known.getDirDefault().applyUMask(known.getUMask(self._conf()))

    def _system(self, name: str) -> Any:
        return self._path(name).getFileSystem(self._conf())

    def _path(self, name: str) -> Any:
        return self._java().org.apache.hadoop.fs.Path(name)

    def _java(self) -> Any:
        return self.session.sparkContext._jvm

    def _conf(self) -> Any:
        context: Any = self.session.sparkContext
        return context._jsc.hadoopConfiguration()
