"""Errors of unreadable data files: exit code 2."""

from __future__ import annotations

from dbanon.errors.usage import InvalidParameter


class FileMalformed(InvalidParameter):
    """A file of rows is malformed. The message names line and column, and no value."""

    code = "file_malformed"
    sqlstate = "22P04"


class AmbiguousValues(InvalidParameter):
    """A column of a file can be read in several ways, and no option says in which."""

    code = "ambiguous_values"
    sqlstate = "22018"
