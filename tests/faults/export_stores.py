"""Where exports are written (disk, S3, Iceberg), read by programs other than dbanon."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import boto3
import botocore.exceptions
import pyarrow as pa
from pyarrow import parquet
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

from dbanon.sessions.names import parse_relation
from tests.object_server import BUCKET

_NAMES = ("people", "peo ple", "peo'ple", "Größe", "100%20", "a+b&c", "select")


class ExportStore(ABC):
    """A store with one path for a release.

    Parameters
    ----------
    path : path of the export, as passed to dbanon.
    """

    kind: str
    path: str

    @abstractmethod
    def table(self) -> pa.Table | None:
        """The table that readers get now, or None."""

    @abstractmethod
    def everything(self) -> dict[str, bytes]:
        """All objects in the store, as bytes by name."""

    @abstractmethod
    def put_other(self) -> None:
        """Overwrite the export as another program would."""

    @abstractmethod
    def remove(self) -> None:
        """Remove the current export."""

    def digest(self) -> str | None:
        """Digest of the rows that readers get now, or None."""
        table = self.table()
        return None if table is None else digest_of(table)

    def tables(self) -> dict[str, pa.Table]:
        """All Parquet files in the store, whether readers see them or not."""
        return {
            name: parquet.read_table(io.BytesIO(content))
            for name, content in self.everything().items()
            if content[:4] == b"PAR1"
        }


def digest_of(table: pa.Table) -> str:
    """Digest of the rows, regardless of their order."""
    rows = sorted(map(repr, zip(*table.to_pydict().values(), strict=True)))
    return hashlib.sha256("\n".join([*table.column_names, *rows]).encode()).hexdigest()


def _others() -> pa.Table:
    return pa.table({"theirs": [1, 2, 3]})


class Disk(ExportStore):
    kind = "disk"

    def __init__(self, folder: Path, rng: Random) -> None:
        self.folder = folder / "out put"
        self.folder.mkdir()
        self.file = self.folder / f"{rng.choice(_NAMES)}.parquet"
        self.path = str(self.file)

    def table(self) -> pa.Table | None:
        try:
            return parquet.read_table(io.BytesIO(self.file.read_bytes()))
        except FileNotFoundError:
            return None

    def everything(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}

    def put_other(self) -> None:
        new_file = self.folder / "theirs"
        parquet.write_table(_others(), new_file)
        new_file.replace(self.file)

    def remove(self) -> None:
        self.file.unlink()


class S3(ExportStore):
    kind = "s3"

    def __init__(self, folder: Path, rng: Random) -> None:
        # Bypass the proxy between dbanon and the store.
        self._client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
        self.key = f"out put/{folder.name}/{rng.choice(_NAMES)}.parquet"
        self._below = self.key.rpartition("/")[0]
        self.path = f"s3://{BUCKET}/{self.key}"

    def _get(self, key: str) -> bytes:
        content: bytes = self._client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return content

    def table(self) -> pa.Table | None:
        try:
            return parquet.read_table(io.BytesIO(self._get(self.key)))
        except botocore.exceptions.ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchKey":
                raise
            return None

    def everything(self) -> dict[str, bytes]:
        listed = self._client.list_objects_v2(Bucket=BUCKET, Prefix=self._below)
        return {
            entry["Key"].rpartition("/")[2]: self._get(entry["Key"])
            for entry in listed.get("Contents", ())
        }

    def put_other(self) -> None:
        buffer = io.BytesIO()
        parquet.write_table(_others(), buffer)
        self._client.put_object(Bucket=BUCKET, Key=self.key, Body=buffer.getvalue())

    def remove(self) -> None:
        self._client.delete_object(Bucket=BUCKET, Key=self.key)


class Iceberg(ExportStore):
    kind = "iceberg"

    def __init__(self, folder: Path, rng: Random) -> None:
        self.folder = folder / "warehouse"
        self.folder.mkdir()
        name = rng.choice(_NAMES)
        self.identifier = ("clinic", name)
        self.path = f'iceberg:faults/clinic."{name}"'
        assert parse_relation(self.path.partition("/")[2]).name == name
        self._given = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{self.folder}",
        }
        # Configured as pyiceberg on a client is.
        for key, value in self._given.items():
            os.environ[f"PYICEBERG_CATALOG__FAULTS__{key.upper()}"] = value

    def _catalog(self) -> Any:
        return load_catalog("faults", **self._given)

    def table(self) -> pa.Table | None:
        try:
            with self._catalog() as catalog:
                table: pa.Table = catalog.load_table(self.identifier).scan().to_arrow()
        except NoSuchTableError:
            return None
        return table

    def everything(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}

    def put_other(self) -> None:
        with self._catalog() as catalog:
            catalog.create_namespace_if_not_exists("clinic")
            try:
                table = catalog.load_table(self.identifier)
            except NoSuchTableError:
                table = catalog.create_table(self.identifier, _others().schema)
                table.append(_others())
                return
            rows = table.scan().to_arrow()
            table.append(rows.slice(0, 1))

    def remove(self) -> None:
        with self._catalog() as catalog:
            catalog.drop_table(self.identifier)


STORES = {"disk": Disk, "s3": S3, "iceberg": Iceberg}


class StoreReaders:
    """Reads the path in a loop, like a program that does not know dbanon."""

    def __init__(self, store: ExportStore) -> None:
        self.seen: dict[str | None, int] = {}
        self.failed: set[str] = set()
        self._store, self._stop = store, threading.Event()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Read in a thread during the block."""
        thread = threading.Thread(target=self._loop)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                digest = self._store.digest()
            except Exception as error:
                # The catalog is a file that another process may have locked.
                if "locked" not in str(error):
                    self.failed.add(type(error).__name__)
            else:
                self.seen[digest] = self.seen.get(digest, 0) + 1
            time.sleep(0.002)

    def findings(self, allowed: Sequence[str | None]) -> list[str]:
        """Report results that match none of these digests."""
        findings = [f"a reader failed: {name}" for name in sorted(self.failed)]
        others = {digest for digest in self.seen if digest not in allowed}
        if None in others:
            findings.append(f"a reader met nothing {self.seen[None]} times")
        if others - {None}:
            findings.append("a reader met other rows than those of the old and the new release")
        return findings
