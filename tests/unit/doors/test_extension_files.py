"""The files of the extension: written over dbanon's own, never over another's."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbanon.doors.extension import write_extension
from dbanon.errors import InstallRefused
from dbanon.version import version


def test_own_files_are_written_again(tmp_path: Path) -> None:
    first = {path: path.read_text() for path in write_extension(tmp_path, ["/opt/site"])}
    assert {path: path.read_text() for path in write_extension(tmp_path, ["/opt/site"])} == first


@pytest.mark.parametrize("name", ["dbanon.control", f"dbanon--{version()}.sql"])
def test_another_extension_of_the_name_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("comment = 'another one'\n")
    with pytest.raises(InstallRefused, match="was not written by dbanon"):
        write_extension(tmp_path, ["/opt/site"])
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "comment = 'another one'\n"
