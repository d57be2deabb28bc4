"""Writers of a folder cannot get private files of the reading account released."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import dbanon
from dbanon import Hierarchy
from dbanon.data import files
from dbanon.doors.cli.main import main
from dbanon.errors import DbanonError, ForeignFile, SourceChanged
from dbanon.stores import folders
from dbanon.stores.folders import list_source_files, parse_location
from tests.prerequisites import only_where

SECRET = 4711
NOBODY = 65534
as_root = only_where(os.geteuid() == 0, "files of other accounts are made by root")


def write(path: Path, ages: list[int]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        path.write_text("age,site\n" + "".join(f"{age},a\n" for age in ages))
    else:
        parquet.write_table(pa.table({"age": ages, "site": ["a"] * len(ages)}), path)
    return path


@pytest.fixture(params=["csv", "parquet"])
def ending(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def drop(tmp_path: Path, ending: str) -> Path:
    """A folder that others may write to, with a file of the runner's."""
    folder = tmp_path / "drop"
    write(folder / f"a.{ending}", [20] * 10)
    folder.chmod(0o777)
    return folder


@pytest.fixture
def private(tmp_path: Path, ending: str) -> Path:
    """A file that only the runner may read."""
    return write(tmp_path / "private" / f"p.{ending}", [SECRET] * 10)


def ages_of(url: str, tmp_path: Path, **options: Any) -> set[int]:
    """The released ages."""
    target = tmp_path / f"{len(list(tmp_path.iterdir()))}.duckdb"
    dbanon.anonymize(
        url,
        table="people",
        quasi_identifiers=["age"],
        k=2,
        output="r",
        target=f"duckdb:///{target}",
        **options,
    )
    with duckdb.connect(str(target)) as connection:
        return {age for (age,) in connection.execute("SELECT age FROM r").fetchall()}


def link_file(drop: Path, private: Path) -> None:
    (drop / f"b{private.suffix}").symlink_to(private)


def link_file_by_two(drop: Path, private: Path) -> None:
    (drop / ".hidden").symlink_to(private)
    (drop / f"b{private.suffix}").symlink_to(".hidden")


def link_file_upwards(drop: Path, private: Path) -> None:
    (drop / f"b{private.suffix}").symlink_to(f"../private/{private.name}")


def link_folder(drop: Path, private: Path) -> None:
    (drop / "year=2025").symlink_to(private.parent)


def link_within_a_folder(drop: Path, private: Path) -> None:
    (drop / "x").mkdir()
    (drop / "x" / "y").symlink_to(private.parent)


def link_hard(drop: Path, private: Path) -> None:
    os.link(private, drop / f"b{private.suffix}")


LINKS: list[Callable[[Path, Path], None]] = [
    link_file,
    link_file_by_two,
    link_file_upwards,
    link_folder,
    link_within_a_folder,
    link_hard,
]


@pytest.mark.parametrize("attack", LINKS)
@pytest.mark.parametrize("form", ["{}/", "{}/**/*{ending}", "{}"])
def test_links_in_a_folder_are_not_followed(
    attack: Callable[[Path, Path], None], form: str, drop: Path, private: Path, tmp_path: Path
) -> None:
    attack(drop, private)
    url = "file:" + form.format(drop, ending=private.suffix)
    with pytest.raises(ForeignFile) as refused:
        ages_of(url, tmp_path)
    assert str(SECRET) not in str(refused.value)
    with pytest.raises(ForeignFile):
        list_source_files(parse_location(url), "allow")


@pytest.mark.parametrize("attack", [link_file, link_hard, link_file_by_two])
def test_links_are_followed_on_request(
    attack: Callable[[Path, Path], None], drop: Path, private: Path, tmp_path: Path
) -> None:
    attack(drop, private)
    assert ages_of(f"file:{drop}/", tmp_path, foreign_files="links") == {20, SECRET}


def test_links_to_folders_are_followed_on_request(
    drop: Path, private: Path, tmp_path: Path
) -> None:
    link_within_a_folder(drop, private)
    # A circle has an end.
    (drop / "x" / "z").symlink_to(drop)
    assert ages_of(f"file:{drop}/", tmp_path, foreign_files="links") == {20, SECRET}


def test_a_pattern_with_a_link_in_its_folders(drop: Path, private: Path, tmp_path: Path) -> None:
    link_folder(drop, private)
    with pytest.raises(ForeignFile):
        ages_of(f"file:{drop}/*/*{private.suffix}", tmp_path)


def test_hidden_links_are_passed_over(drop: Path, private: Path, tmp_path: Path) -> None:
    (drop / f".b{private.suffix}").symlink_to(private)
    (drop / "_old").symlink_to(private.parent)
    assert ages_of(f"file:{drop}/", tmp_path) == {20}


@as_root
def test_files_of_other_accounts_are_read_on_request(
    drop: Path, ending: str, tmp_path: Path
) -> None:
    os.chown(write(drop / f"b.{ending}", [30] * 10), NOBODY, NOBODY)
    with pytest.raises(ForeignFile, match="another account") as refused:
        ages_of(f"file:{drop}/", tmp_path)
    assert "foreign_files" in str(refused.value)
    assert ages_of(f"file:{drop}/", tmp_path, foreign_files="allow") == {20, 30}
    # A file that the user names explicitly is intended.
    assert ages_of(f"file:{drop}/b.{ending}", tmp_path) == {30}


@as_root
def test_a_link_of_another_account_is_no_file_that_was_named(
    drop: Path, private: Path, ending: str, tmp_path: Path
) -> None:
    """A job names the file of each month: whoever may write there puts a link in its place."""
    named = drop / f"month.{ending}"
    named.symlink_to(private)
    # The runner's own: it leads where the runner said.
    assert ages_of(f"file:{named}", tmp_path) == {SECRET}
    os.chown(named, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(ForeignFile):
        ages_of(f"file:{named}", tmp_path)
    folder = tmp_path / "named"
    folder.symlink_to(private.parent)
    os.chown(folder, NOBODY, NOBODY, follow_symlinks=False)
    for url in (f"file:{folder}/{private.name}", f"file:{folder}/", f"file:{folder}/*.{ending}"):
        with pytest.raises(ForeignFile):
            ages_of(url, tmp_path)
        assert ages_of(url, tmp_path, foreign_files="links") == {SECRET}


def test_a_hard_link_in_a_folder_of_others_is_no_file_that_was_named(
    drop: Path, private: Path, ending: str, tmp_path: Path
) -> None:
    link_hard(drop, private)
    with pytest.raises(ForeignFile, match="other names"):
        ages_of(f"file:{drop}/b.{ending}", tmp_path)
    # No other account can have created one in a folder of the runner's own.
    drop.chmod(0o755)
    assert ages_of(f"file:{drop}/b.{ending}", tmp_path) == {SECRET}
    assert ages_of(f"file:{drop}/", tmp_path) == {20, SECRET}


def test_a_link_that_leads_around_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to("b.csv")
    (tmp_path / "b.csv").symlink_to("a.csv")
    with pytest.raises(DbanonError):
        ages_of(f"file:{tmp_path}/a.csv", tmp_path)


def test_a_pipe_is_no_file_of_rows(drop: Path, ending: str, tmp_path: Path) -> None:
    os.mkfifo(drop / f"b.{ending}")
    with pytest.raises(ForeignFile, match="not a regular file"):
        ages_of(f"file:{drop}/", tmp_path)


@pytest.mark.parametrize("source_kind", ["file", "folder"])
def test_what_was_checked_is_what_is_read(
    drop: Path,
    private: Path,
    ending: str,
    source_kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An attacker exchanges the file, or its folder, right behind the check of its name."""
    folder = drop / "x"
    file = write(folder / f"b.{ending}", [30] * 10)
    look, done = files._look_up, []

    def exchange(name: str, directory: int) -> Any:
        status = look(name, directory)
        watched_name = file.name if source_kind == "file" else folder.name
        if name == watched_name and not done:
            done.append(True)
            if source_kind == "file":
                file.unlink()
                file.symlink_to(private)
            else:
                folder.rename(drop.parent / "gone")
                folder.symlink_to(private.parent)
        return status

    monkeypatch.setattr(files, "_look_up", exchange)
    with pytest.raises(DbanonError):
        ages_of(f"file:{folder.parent}/", tmp_path)
    assert done


def test_a_file_that_is_exchanged_after_it_was_listed(
    drop: Path, private: Path, ending: str
) -> None:
    [piece] = list_source_files(drop)
    (drop / f"a.{ending}").unlink()
    write(drop / f"a.{ending}", [30] * 10)
    with pytest.raises(SourceChanged), piece.open(2**20):
        pass
    (drop / f"a.{ending}").unlink()
    link_file(drop, private)
    (drop / f"b.{ending}").rename(drop / f"a.{ending}")
    with pytest.raises(ForeignFile), piece.open(2**20):
        pass


def test_duckdb_opens_the_file_that_was_checked(
    drop: Path, private: Path, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets a number: the name may be another file's by then."""
    open_regular_file = folders.open_regular_file

    def exchanged(path: Path, *more: Any) -> Any:
        context = open_regular_file(path, *more)
        file = context.__enter__()
        path.rename(drop / f".{path.name}")
        path.symlink_to(private)

        class Context:
            def __enter__(self) -> Any:
                return file

            def __exit__(self, *error: Any) -> None:
                path.unlink()
                (drop / f".{path.name}").rename(path)
                context.__exit__(None, None, None)

        return Context()

    monkeypatch.setattr(folders, "open_regular_file", exchanged)
    assert ages_of(f"file:{drop}/", tmp_path) == {20}


def test_the_report_says_that_it_was_used(drop: Path, ending: str, tmp_path: Path) -> None:
    target = f"duckdb:///{tmp_path / 'a.duckdb'}"
    done = CliRunner().invoke(
        main,
        [
            "anonymize",
            f"file:{drop}/",
            "--table",
            "people",
            "-q",
            "age",
            "--k",
            "2",
            "--output",
            "r",
            "--target",
            target,
            "--foreign-files",
            "links",
        ],
        env={"COLUMNS": "200"},
    )
    assert done.exit_code == 0, done.output
    assert "files of other accounts were allowed, and links followed" in done.output
    assert dbanon.show(target, "r")["arguments"]["reading"]["foreign_files"] == "links"


@as_root
def test_the_file_of_a_hierarchy_is_no_link_of_another_account(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a;top\nb;top\n")
    named = tmp_path / "tree.csv"
    named.symlink_to(secret)
    assert Hierarchy.load(named).path("a") == ("a", "top")
    os.chown(named, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(ForeignFile):
        Hierarchy.load(named)


def test_it_is_refused_where_there_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(DbanonError, match="foreign_files only applies to files"):
        ages_of(f"duckdb:///{tmp_path / 'a.duckdb'}", tmp_path, foreign_files="links")
    with pytest.raises(DbanonError, match="foreign_files only applies to files"):
        ages_of("s3://bucket/folder/", tmp_path, foreign_files="links")
