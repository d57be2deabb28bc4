"""The schemes of URLs that name row files, on this machine or in an object store.

Every run looks at them, so they are apart from the modules that read such files.
"""

from __future__ import annotations

from dbanon.errors import InvalidParameter

FILE = "file:"
# The Python package that implements the file system of each URL scheme.
SCHEMES = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
# Names of these schemes in Hadoop and other programs.
_SCHEME_OF_ALIAS = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfss": "abfs",
    "wasb": "az",
    "wasbs": "az",
}


def is_object(url: str) -> bool:
    """Whether a URL has the scheme of an object store; raises InvalidParameter for ``s3a:`` etc."""
    scheme, separator, _ = url.partition("://")
    if separator and scheme.lower() in _SCHEME_OF_ALIAS:
        raise InvalidParameter(
            f"dbanon does not support the URL scheme {scheme}://.",
            hint=f"Write {_SCHEME_OF_ALIAS[scheme.lower()]}:// instead of {scheme}://.",
        )
    return bool(separator) and scheme in SCHEMES


def is_row_file_url(url: str) -> bool:
    """Whether a URL names row files, on this machine or in an object store."""
    return url.startswith(FILE) or is_object(url)
