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
from dbanon.stores.schemes import SCHEMES

# The optional dependency of dbanon that installs each package.
_EXTRA_OF_PACKAGE = {"s3fs": "s3", "gcsfs": "gs", "adlfs": "az"}
# The keys of fsspec's information about an object whose values change if it is replaced.
_VERSION_KEYS = (
    "ETag",
    "etag",
    "LastModified",
    "last_modified",
    "updated",
    "generation",
    "created",
)
# The start of a URL's query; other question marks are wildcards for one character.
_QUERY_ARGUMENT = re.compile(r"\?[A-Za-z][\w.%-]*=")
_CREDENTIALS_HINT = (
    "Credentials and addresses come from the environment, in each cloud's own variables:"
    " AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …."
)
# Words in the class names of exceptions that mean missing rights.
_DENIED_WORDS = ("Credential", "Profile", "Authenti", "Unauthorized", "Forbidden")


def _is_folder_marker(name: str, info: Mapping[str, object]) -> bool:
    """Whether an object is empty and only marks a folder for consoles or Hadoop."""
    return not info.get("size") and name.endswith(("/", "_$folder$"))


@dataclass(frozen=True)
class ObjectStat:
    """The status of an object, with the field names of ``os.stat_result``.

    ``st_ino`` is not an inode, but a text that changes if the object is replaced.
    """

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
    scheme : one of ``SCHEMES``.
    key : the bucket or container, a slash, and the name in it.
    """

    scheme: str
    key: str

    @classmethod
    def parse(cls, url: str) -> ObjectPath:
        """Parse a URL; raises InvalidParameter."""
        scheme, _, key = url.partition("://")
        bucket, _, name = key.partition("/")
        # In abfs URLs, an @ separates the container from the account; elsewhere it may follow a
        # password.
        if ":" in bucket or (bucket.count("@") and scheme != "abfs"):
            raise InvalidParameter(
                "The URL of an object store contains more than a bucket and a name.",
                hint=_CREDENTIALS_HINT,
            )
        if _QUERY_ARGUMENT.search(url) or has_credentials(url):
            raise InvalidParameter(
                "The URL of an object store contains arguments, such as a key or a signature.",
                hint=_CREDENTIALS_HINT,
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
        """The last component of the path."""
        return self.key.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The ending with its dot, such as ``.csv``."""
        return PurePosixPath(self.key).suffix

    @property
    def parent(self) -> ObjectPath:
        """The path without its last component."""
        return ObjectPath(self.scheme, self.key.rpartition("/")[0])

    def with_name(self, name: str) -> ObjectPath:
        """The path with another last component."""
        return ObjectPath(self.scheme, f"{self.parent.key}/{name}")

    def make_parent(self) -> None:
        """Do nothing: an object needs no parent directory."""

    def lstat(self) -> ObjectStat:
        """Return the status of the object; raises FileNotFoundError or another OSError."""
        with translate_client_errors():
            info = self.file_system.info(self.key)
        # For a key that is only the start of other keys, fsspec describes a folder.
        if info["type"] != "file":
            raise FileNotFoundError(errno.ENOENT, "there is no such object")
        version = "|".join(str(info.get(name, "")) for name in _VERSION_KEYS)
        return ObjectStat(int(info["size"]), st_ino=version)

    def age(self, now: float) -> float:
        """Return the seconds from the object's modification, by the store's clock, to ``now``.

        Raises OSError.

        Parameters
        ----------
        now : a time in seconds since 1970.
        """
        with translate_client_errors():
            return now - float(self.file_system.modified(self.key).timestamp())

    def open(self, mode: str = "rb") -> BinaryIO:
        """Open the object for reading; raises OSError."""
        assert mode == "rb"
        with translate_client_errors():
            stream: BinaryIO = self.file_system.open(self.key, mode)
        return stream

    def download(self) -> BinaryIO:
        """Download the object into an anonymous file in memory; raises OSError."""
        memory_file = os.fdopen(os.memfd_create("dbanon"), "w+b")
        try:
            with translate_client_errors():
                # Not all clients can write to an open file, so pass a path that refers to it.
                self.file_system.get_file(self.key, f"/dev/fd/{memory_file.fileno()}")
        except BaseException:
            memory_file.close()
            raise
        return memory_file

    def put(self, file: BinaryIO, size: int) -> None:
        """Upload a file of ``size`` bytes; readers see all of it or nothing. Raises OSError."""
        with translate_client_errors():
            # fsspec reads from a path only; this one refers to the open file.
            self.file_system.put_file(f"/dev/fd/{file.fileno()}", self.key)
        if self.lstat().st_size != size:
            raise OSError(errno.EIO, "the size of the stored object is not that of its source")

    def copy_to(self, target: ObjectPath) -> None:
        """Copy the object within its store; readers see all of it or nothing. Raises OSError."""
        with translate_client_errors():
            self.file_system.cp_file(self.key, target.key)
        if target.lstat().st_size != self.lstat().st_size:
            raise OSError(errno.EIO, "the size of the stored object is not that of its source")

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object; raises OSError."""
        try:
            with translate_client_errors():
                self.file_system.rm_file(self.key)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def list_below(self) -> list[ObjectPath]:
        """List all objects below this path, without folder markers; raises OSError."""
        with translate_client_errors():
            objects = self.file_system.find(self.key, detail=True)
        return [
            ObjectPath(self.scheme, name.lstrip("/"))
            for name, info in sorted(objects.items())
            if not _is_folder_marker(name, info)
        ]

    def list_matching(self) -> list[ObjectPath]:
        """List the objects that match this path as a pattern; raises OSError."""
        with translate_client_errors():
            objects = self.file_system.glob(self.key, detail=True)
        return [
            ObjectPath(self.scheme, name.lstrip("/"))
            for name, info in sorted(objects.items())
            if info["type"] == "file" and not _is_folder_marker(info["name"], info)
        ]

    @property
    def file_system(self) -> Any:
        """The fsspec file system for the scheme; raises MissingDependency."""
        return _file_system(self.scheme)


@cache
def _file_system(scheme: str) -> Any:
    package = SCHEMES[scheme]
    try:
        fsspec = import_module("fsspec")
        # A cached listing would hide objects that other programs have written since.
        return fsspec.filesystem(scheme, use_listings_cache=False, skip_instance_cache=True)
    except ImportError:
        extra = _EXTRA_OF_PACKAGE.get(package, package)
        raise MissingDependency.of_extra(f"{scheme}://", package, extra) from None


@contextmanager
def translate_client_errors() -> Iterator[None]:
    """Translate errors of a store's client into OSError, with only the name of their class.

    Raises
    ------
    FileNotFoundError : there is no such object.
    PermissionError : the store denies access.
    OSError : any other error of the client, with the error number EIO; it may be temporary.
    """
    try:
        yield
    except MissingDependency:
        raise
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "there is no such object") from None
    except Exception as error:
        class_name = type(error).__name__
        if isinstance(error, PermissionError) or any(word in class_name for word in _DENIED_WORDS):
            raise PermissionError(
                errno.EACCES, f"the object store denies access to this account ({class_name})"
            ) from None
        raise OSError(errno.EIO, f"the object store does not answer ({class_name})") from None
