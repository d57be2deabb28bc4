"""Path-like access to objects in S3, Google Cloud Storage and Azure, through fsspec.

Error messages of a store may contain account names and signed addresses, so only the exception's
class is reported. Credentials come from the environment and each cloud's own configuration files,
never from a URL.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from dbanon.data.frozen import dataclass
from dbanon.errors import InvalidParameter, MissingDependency, has_credentials

# The package for each scheme.
SCHEMES = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
# The schemes' names in Hadoop and elsewhere.
_ALIASES = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfss": "abfs",
    "wasb": "az",
    "wasbs": "az",
}
_EXTRAS = {"s3fs": "s3", "gcsfs": "gs", "adlfs": "az"}
# The keys by which the file systems report an object's version.
_STATES = ("ETag", "etag", "LastModified", "last_modified", "updated", "generation", "created")
# The start of a URL's query; a ? alone is a wildcard for one character.
_ARGUMENT = re.compile(r"\?[A-Za-z][\w.%-]*=")
_FROM_ENVIRONMENT = (
    "Credentials and addresses come from the environment, as each cloud has it: AWS_ACCESS_KEY_ID,"
    " AWS_ENDPOINT_URL, …."
)
_DENIED = ("Credential", "Profile", "Authenti", "Unauthorized", "Forbidden")


def is_object(url: str) -> bool:
    """Whether a URL names objects; raises InvalidParameter for an alias of a scheme."""
    scheme, separator, _ = url.partition("://")
    if separator and scheme.lower() in _ALIASES:
        raise InvalidParameter(
            f"There is no object store with the scheme {scheme}:// here.",
            hint=f"Write {_ALIASES[scheme.lower()]}:// instead of {scheme}://.",
        )
    return bool(separator) and scheme in SCHEMES


def _is_folder_marker(name: str, info: Mapping[str, Any]) -> bool:
    """Whether an object is empty and only marks a folder for consoles or Hadoop."""
    return not info.get("size") and name.endswith(("/", "_$folder$"))


@dataclass(frozen=True)
class ObjectStat:
    """The status of an object, with the field names of ``os.stat_result``."""

    st_size: int
    st_ino: str
    st_mode: int = stat.S_IFREG
    st_dev: int = 0
    st_mtime_ns: int = 0


@dataclass(frozen=True)
class ObjectPath:
    """The path of an object.

    Parameters
    ----------
    key : the bucket or container, and the name in it.
    """

    scheme: str
    key: str

    @classmethod
    def of(cls, url: str) -> ObjectPath:
        """Parse a URL; raises InvalidParameter."""
        scheme, _, key = url.partition("://")
        bucket, _, name = key.partition("/")
        if ":" in bucket or (bucket.count("@") and scheme != "abfs"):
            raise InvalidParameter(
                "The URL of an object store contains more than a bucket and a name.",
                hint=_FROM_ENVIRONMENT,
            )
        if _ARGUMENT.search(url) or has_credentials(url):
            raise InvalidParameter(
                "The URL of an object store contains arguments, such as a key or a signature.",
                hint=_FROM_ENVIRONMENT,
            )
        if not bucket or not name.strip("/"):
            raise InvalidParameter(
                "The URL of an object store must name a bucket and a name in it.",
                hint=f"Write the name of an object or a folder, too:"
                f" {scheme}://bucket/people.parquet or"
                f" {scheme}://bucket/folder/.",
            )
        return cls(scheme, key.rstrip("/"))

    def __str__(self) -> str:
        return f"{self.scheme}://{self.key}"

    @property
    def name(self) -> str:
        """The last part."""
        return self.key.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The ending, with its point."""
        return PurePosixPath(self.key).suffix

    @property
    def parent(self) -> ObjectPath:
        """The path without its last part."""
        return ObjectPath(self.scheme, self.key.rpartition("/")[0])

    def with_name(self, name: str) -> ObjectPath:
        """The path with another last part."""
        return ObjectPath(self.scheme, f"{self.parent.key}/{name}")

    def make_parent(self) -> None:
        """Do nothing: an object needs no parent directory."""

    def lstat(self) -> ObjectStat:
        """Return its status; raises OSError, or FileNotFoundError if it does not exist."""
        with translate_client_errors():
            info = self.system.info(self.key)
        if info["type"] != "file":
            raise FileNotFoundError(errno.ENOENT, "there is no such object")
        state = "|".join(str(info.get(name, "")) for name in _STATES)
        return ObjectStat(int(info["size"]), state)

    def age(self, now: float) -> float:
        """Seconds since it was written, by the store's clock; raises OSError."""
        with translate_client_errors():
            return now - float(self.system.modified(self.key).timestamp())

    def open(self, mode: str = "rb") -> BinaryIO:
        """Open it for reading; raises OSError."""
        assert mode == "rb"
        with translate_client_errors():
            opened: BinaryIO = self.system.open(self.key, mode)
        return opened

    def download(self) -> BinaryIO:
        """Download it into a memory file with a file descriptor; raises OSError."""
        memory_file = os.fdopen(os.memfd_create("dbanon"), "w+b")
        try:
            with translate_client_errors():
                self.system.get_file(self.key, f"/dev/fd/{memory_file.fileno()}")
        except BaseException:
            memory_file.close()
            raise
        return memory_file

    def put(self, file: BinaryIO, size: int) -> None:
        """Upload a file; readers see all of it or nothing. Raises OSError."""
        with translate_client_errors():
            self.system.put_file(f"/dev/fd/{file.fileno()}", self.key)
        if self.lstat().st_size != size:
            raise OSError(errno.EIO, "the object store holds another number of bytes")

    def copy_to(self, target: ObjectPath) -> None:
        """Copy it within its store; readers see all of it or nothing. Raises OSError."""
        with translate_client_errors():
            self.system.cp_file(self.key, target.key)
        if target.lstat().st_size != self.lstat().st_size:
            raise OSError(errno.EIO, "the object store holds another number of bytes")

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete it; raises OSError."""
        try:
            with translate_client_errors():
                self.system.rm_file(self.key)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def below(self) -> list[ObjectPath]:
        """All objects below it, as in a folder, without folder markers; raises OSError."""
        with translate_client_errors():
            objects = self.system.find(self.key, detail=True)
        return [
            ObjectPath(self.scheme, name.lstrip("/"))
            for name, info in sorted(objects.items())
            if not _is_folder_marker(name, info)
        ]

    def matching(self) -> list[ObjectPath]:
        """The objects that match it as a pattern, without folder markers; raises OSError."""
        with translate_client_errors():
            objects = self.system.glob(self.key, detail=True)
        return [
            ObjectPath(self.scheme, name.lstrip("/"))
            for name, info in sorted(objects.items())
            if info["type"] == "file" and not _is_folder_marker(info["name"], info)
        ]

    @property
    def system(self) -> Any:
        """The file system of its scheme; raises MissingDependency."""
        return _system(self.scheme)


@cache
def _system(scheme: str) -> Any:
    package = SCHEMES[scheme]
    try:
        fsspec = import_module("fsspec")
        # A cached listing would hide objects that others write meanwhile.
        return fsspec.filesystem(scheme, use_listings_cache=False, skip_instance_cache=True)
    except ImportError:
        extra = _EXTRAS.get(package, package)
        raise MissingDependency.of_extra(f"{scheme}://", package, extra) from None


def iceberg_module(module: str) -> Any:
    """A module of pyiceberg's; raises MissingDependency."""
    try:
        return import_module(f"pyiceberg.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyiceberg":
            raise
        raise MissingDependency.of_extra("Iceberg", "pyiceberg", "iceberg") from None


@contextmanager
def translate_client_errors() -> Iterator[None]:
    """Translate errors of a store's client into OSError, reporting only their class.

    Raises
    ------
    FileNotFoundError, PermissionError, OSError : as a disk would.
    """
    try:
        yield
    except MissingDependency:
        raise
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "there is no such object") from None
    except Exception as error:
        kind = type(error).__name__
        if isinstance(error, PermissionError) or any(word in kind for word in _DENIED):
            raise PermissionError(
                errno.EACCES, f"the object store denies access to this account ({kind})"
            ) from None
        raise OSError(errno.EIO, f"the object store does not answer ({kind})") from None
