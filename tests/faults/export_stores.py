"""Where exported releases stand, read by other programs than dbanon: a disk, S3, Iceberg."""

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
    """A store with one place for a release.

    Parameters
    ----------
    path : of the export, as dbanon is told it.
    """

    kind: str
    path: str

    @abstractmethod
    def table(self) -> pa.Table | None:
        """What readers of the place get now; None where there is nothing."""

    @abstractmethod
    def everything(self) -> dict[str, bytes]:
        """All bytes that the store holds, by name."""

    @abstractmethod
    def put_other(self) -> None:
        """Have another program write something else there."""

    @abstractmethod
    def remove(self) -> None:
        """Take away what stands there."""

    def digest(self) -> str | None:
        """Of the rows that readers get now; None where there is nothing."""
        found = self.table()
        return None if found is None else digest_of(found)

    def tables(self) -> dict[str, pa.Table]:
        """All files of Parquet that it holds, whether readers are led to them or not."""
        return {
            name: parquet.read_table(io.BytesIO(held))
            for name, held in self.everything().items()
            if held[:4] == b"PAR1"
        }


def digest_of(table: pa.Table) -> str:
    """Of rows, in whatever order they stand."""
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
        beside = self.folder / "theirs"
        parquet.write_table(_others(), beside)
        beside.replace(self.file)

    def remove(self) -> None:
        self.file.unlink()


class S3(ExportStore):
    kind = "s3"

    def __init__(self, folder: Path, rng: Random) -> None:
        # Past whatever stands between the store and dbanon.
        self._client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
        self.key = f"out put/{folder.name}/{rng.choice(_NAMES)}.parquet"
        self._below = self.key.rpartition("/")[0]
        self.path = f"s3://{BUCKET}/{self.key}"

    def _get(self, key: str) -> bytes:
        found: bytes = self._client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return found

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
            one["Key"].rpartition("/")[2]: self._get(one["Key"])
            for one in listed.get("Contents", ())
        }

    def put_other(self) -> None:
        held = io.BytesIO()
        parquet.write_table(_others(), held)
        self._client.put_object(Bucket=BUCKET, Key=self.key, Body=held.getvalue())

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
        # As pyiceberg of a client looks for it.
        for key, value in self._given.items():
            os.environ[f"PYICEBERG_CATALOG__FAULTS__{key.upper()}"] = value

    def _catalog(self) -> Any:
        return load_catalog("faults", **self._given)

    def table(self) -> pa.Table | None:
        try:
            with self._catalog() as catalog:
                found: pa.Table = catalog.load_table(self.identifier).scan().to_arrow()
        except NoSuchTableError:
            return None
        return found

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
    """A reader that reads the place in a loop, as a program does that knows nothing of dbanon."""

    def __init__(self, store: ExportStore) -> None:
        self.seen: dict[str | None, int] = {}
        self.failed: set[str] = set()
        self._store, self._stop = store, threading.Event()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """It reads for the block."""
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
                found = self._store.digest()
            except Exception as error:
                # Of a catalog in a file, another may hold the lock.
                if "locked" not in str(error):
                    self.failed.add(type(error).__name__)
            else:
                self.seen[found] = self.seen.get(found, 0) + 1
            time.sleep(0.002)

    def findings(self, allowed: Sequence[str | None]) -> list[str]:
        """What it met that is none of these."""
        found = [f"a reader failed: {name}" for name in sorted(self.failed)]
        others = {digest for digest in self.seen if digest not in allowed}
        if None in others:
            found.append(f"a reader met nothing {self.seen[None]} times")
        if others - {None}:
            found.append("a reader met other rows than those of the old and the new release")
        return found
