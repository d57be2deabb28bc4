"""Attacks on the directory that a run puts values into."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dbanon.errors import InsufficientRights, InvalidParameter, JobRunning
from dbanon.stores.scratch import clear_leftovers, open_scratch


def test_it_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with open_scratch(str(tmp_path / "spill")) as disk:
            for path in (tmp_path / "spill", disk.path):
                assert stat.S_IMODE(path.stat().st_mode) == 0o700
            with disk.create_file() as file:
                status = os.fstat(file.fileno())
                assert stat.S_IMODE(status.st_mode) == 0o600
                assert status.st_nlink == 0
    finally:
        os.umask(before)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "spill").symlink_to(tmp_path / "real")
    with pytest.raises(InvalidParameter, match="link"), open_scratch(str(tmp_path / "spill")):
        pass
    (tmp_path / "file").write_text("mine")
    with (
        pytest.raises(InvalidParameter, match="not a directory"),
        open_scratch(str(tmp_path / "file")),
    ):
        pass
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o755, 0o710, 0o701])
def test_what_is_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "spill"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(InsufficientRights, match="open to others"), open_scratch(str(folder)):
        pass
    assert list(folder.iterdir()) == []


def test_what_is_another_accounts_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "spill"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr("dbanon.stores.scratch.os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(InsufficientRights, match="another account"), open_scratch(str(folder)):
        pass


def test_what_holds_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "spill"
    folder.mkdir(mode=0o700)
    (folder / "thesis.tex").write_text("years of work")
    (folder / f"dbanon-{'0' * 32}").mkdir()
    with pytest.raises(InvalidParameter, match="not empty"), open_scratch(str(folder)):
        pass
    assert (folder / "thesis.tex").read_text() == "years of work"
    assert len(list(folder.iterdir())) == 2


def test_an_empty_one_is_taken_and_stays(tmp_path: Path) -> None:
    folder = tmp_path / "spill"
    folder.mkdir(mode=0o700)
    with open_scratch(str(folder)):
        assert len(list(folder.iterdir())) == 1
    assert list(folder.iterdir()) == []


def test_two_runs_do_not_share_it(tmp_path: Path) -> None:
    folder = str(tmp_path / "spill")
    with open_scratch(folder) as disk:
        with pytest.raises(JobRunning), open_scratch(folder):
            pass
        assert disk.path.is_dir()


def test_a_link_inside_what_was_left_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    folder = tmp_path / "spill"
    left = folder / f"dbanon-{'a' * 32}"
    left.mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    (left / "link").symlink_to(tmp_path / "mine")
    with open_scratch(str(folder)):
        assert not left.exists()
    assert (tmp_path / "mine" / "thesis.tex").exists()
    # Left by a run, it was made by one.
    assert not folder.exists()


def test_only_what_runs_left_is_cleared(tmp_path: Path) -> None:
    folder = tmp_path / "spill"
    assert clear_leftovers(str(folder)) == []
    folder.mkdir(mode=0o700)
    assert clear_leftovers(str(folder)) == []
    # It is empty, but it may belong to someone.
    assert folder.is_dir()
    left = folder / f"dbanon-{'0' * 32}"
    left.mkdir()
    (left / "block").write_text("values")
    (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(InvalidParameter, match="not empty"):
        clear_leftovers(str(folder))
    assert (left / "block").exists()
    (folder / "thesis.tex").unlink()
    folder.chmod(0o755)
    with pytest.raises(InsufficientRights, match="open to others"):
        clear_leftovers(str(folder))
    folder.chmod(0o700)
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(InvalidParameter, match="link"):
        clear_leftovers(str(tmp_path / "link"))
    assert clear_leftovers(str(folder)) == [str(left)]
    assert not folder.exists()


def test_what_a_run_has_is_not_cleared(tmp_path: Path) -> None:
    folder = str(tmp_path / "spill")
    with open_scratch(folder) as disk:
        with pytest.raises(JobRunning):
            clear_leftovers(folder)
        assert disk.path.is_dir()
