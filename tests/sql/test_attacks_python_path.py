"""Attacks through directories from which the server's Python imports.

A role that can change a file or replace a directory runs code as the server's account at the next
call. ``install`` refuses such paths before it imports anything.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from dbanon.doors import install, python_path
from dbanon.doors.cli.main import main
from dbanon.doors.python_path import UnsafeError, require_safe
from dbanon.errors import PythonNotUsable
from tests.postgres_server import Server
from tests.prerequisites import only_where

# An account that owns nothing here, and is neither root nor a database server's.
OTHER = pwd.getpwnam("daemon")
AS_ROOT = only_where(os.geteuid() == 0, "only root can give files away")


@pytest.fixture
def base() -> Iterator[Path]:
    """A directory of our account, inside a world-writable sticky one."""
    base = Path(tempfile.mkdtemp(prefix="dbanon-path-"))
    base.chmod(0o755)
    yield base
    shutil.rmtree(base)


@pytest.fixture
def site(base: Path) -> Path:
    """A directory that looks like installed packages."""
    site = base / "lib" / "site"
    for name in ("dbanon/doors", "dbanon/kernels", "numpy/core", "numpy.libs"):
        (site / name).mkdir(parents=True)
    for name in (
        "dbanon/doors/plpython.py",
        "dbanon/kernels/_kernels.so",
        "numpy/core/x.py",
        "json.py",
    ):
        (site / name).write_text("")
    for path in (base, *base.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return site


PLACES = [
    "",
    "..",
    "../..",
    "dbanon",
    "dbanon/doors/plpython.py",
    "dbanon/kernels",
    "dbanon/kernels/_kernels.so",
    "numpy/core/x.py",
    "numpy.libs",
    "json.py",
]


def test_what_only_trusted_accounts_can_change_is_safe(site: Path) -> None:
    require_safe([str(site)])
    require_safe([str(site) + "/", str(site / "." / "..") + "/site"])


@pytest.mark.parametrize("right", [stat.S_IWOTH, stat.S_IWGRP, stat.S_IWOTH | stat.S_ISVTX])
@pytest.mark.parametrize("subpath", PLACES)
def test_directories_writable_by_others(site: Path, subpath: str, right: int) -> None:
    path = site / subpath
    path.chmod(path.stat().st_mode | right)
    if right & stat.S_ISVTX and subpath in ("..", "../.."):
        # Sticky, as /tmp: only owners can rename or remove entries.
        require_safe([str(site)])
        return
    with pytest.raises(UnsafeError, match="may write to"):
        require_safe([str(site)])


@AS_ROOT
@pytest.mark.parametrize("subpath", PLACES)
def test_directories_of_another_account(site: Path, subpath: str) -> None:
    os.chown(site / subpath, OTHER.pw_uid, OTHER.pw_gid)
    with pytest.raises(UnsafeError, match=f"belongs to {OTHER.pw_name}") as caught:
        require_safe([str(site)])
    assert f"--trust-owner {OTHER.pw_name}" in caught.value.args[1]
    # Accepted if confirmed, by name or number; another name does not help.
    require_safe([str(site)], [OTHER.pw_name])
    require_safe([str(site)], [str(OTHER.pw_uid)])
    with pytest.raises(UnsafeError):
        require_safe([str(site)], ["bin"])


def test_links_are_followed_and_both_sides_looked_at(base: Path, site: Path) -> None:
    open_place = base / "open"
    open_place.mkdir()
    link = base / "link"
    link.symlink_to("lib/site")
    require_safe([str(link)])
    # The link is in a directory where anybody can replace it.
    (open_place / "link").symlink_to(site)
    open_place.chmod(0o777)
    with pytest.raises(UnsafeError, match=r"may write to .*open"):
        require_safe([str(open_place / "link")])
    # The link is safe but its target is not: as the path, a package or a file, through two links.
    (open_place / "evil").mkdir()
    (open_place / "evil" / "x.py").write_text("")
    for symlink, target in (
        (base / "way", open_place / "evil"),
        (site / "pandas", open_place / "evil"),
        (site / "six.py", open_place / "evil" / "x.py"),
    ):
        symlink.symlink_to(target)
        with pytest.raises(UnsafeError, match=r"may write to .*open"):
            require_safe([str(symlink if symlink.parent == base else site)])
        symlink.unlink()
    (base / "second").symlink_to("third")
    (base / "third").symlink_to(open_place / "evil")
    (site / "pandas").symlink_to(base / "second")
    with pytest.raises(UnsafeError, match=r"may write to .*open"):
        require_safe([str(site)])


def test_links_in_a_circle_and_to_nothing(base: Path, site: Path) -> None:
    (site / "around").symlink_to("../..")
    (site / "nowhere").symlink_to("missing")
    require_safe([str(site)])
    (base / "a").symlink_to("b")
    (base / "b").symlink_to("a")
    with pytest.raises(UnsafeError, match="too many symbolic links"):
        require_safe([str(base / "a")])


@pytest.mark.parametrize("mode", [0o777, 0o1777], ids=["writable", "sticky"])
@pytest.mark.parametrize("target", ["open/evil.py", "open/later/evil.py", "link/evil.py"])
def test_a_link_to_a_file_that_another_account_could_create(
    base: Path, site: Path, target: str, mode: int
) -> None:
    """Once it is created, it is imported."""
    (base / "open").mkdir()
    (base / "open").chmod(mode)
    (base / "link").symlink_to("open")
    (site / "six.py").symlink_to(base / target)
    with pytest.raises(UnsafeError, match=r"six\.py is a link to a file that does not exist"):
        require_safe([str(site)])
    (base / "open").chmod(0o755)
    require_safe([str(site)])


@AS_ROOT
def test_a_link_of_another(base: Path, site: Path) -> None:
    (base / "link").symlink_to(site)
    os.lchown(base / "link", OTHER.pw_uid, OTHER.pw_gid)
    with pytest.raises(UnsafeError, match="link belongs to"):
        require_safe([str(base / "link")])


def test_what_is_not_there_could_be_made_by_anybody(base: Path) -> None:
    for path in (base / "missing", Path("/tmp/missing-dbanon")):
        with pytest.raises(UnsafeError, match="does not exist"):
            require_safe([str(path)])
    with pytest.raises(UnsafeError, match="not an absolute path"):
        require_safe(["lib/site"])
    with pytest.raises(UnsafeError, match="has no account"):
        require_safe([str(base)], ["no such account"])


Change = Callable[[Path], None]


def _everybody(path: Path) -> None:
    path.chmod(path.stat().st_mode | stat.S_IWOTH)


def _another(path: Path) -> None:
    os.chown(path, OTHER.pw_uid, -1)


@AS_ROOT
@pytest.mark.parametrize("change", [_everybody, _another])
@pytest.mark.parametrize("subpath", ["..", "dbanon", "numpy", "dbanon/kernels"])
def test_install_refuses(
    plpython_url: str, local_pg_server: Server, backend_path: Path, subpath: str, change: Change
) -> None:
    path = backend_path / subpath
    if subpath == "dbanon/kernels":
        [path] = path.glob("_kernels*.so")
    before = path.stat()
    change(path)
    try:
        with pytest.raises(PythonNotUsable, match="as the server's account"):
            install.install(plpython_url, python_paths=[str(backend_path)])
    finally:
        os.chown(path, before.st_uid, before.st_gid)
        path.chmod(before.st_mode)
    assert local_pg_server.execute("SELECT to_regnamespace('dbanon')", url=plpython_url) == [
        (None,)
    ]


def test_nothing_is_imported_from_an_unsafe_place(plpython_url: str, base: Path) -> None:
    sprung = base / "sprung"
    (base / "site" / "dbanon").mkdir(parents=True)
    trap = base / "site" / "dbanon" / "__init__.py"
    trap.write_text(f"open({str(sprung)!r}, 'w')")
    base.chmod(0o777)
    with pytest.raises(PythonNotUsable, match="may write to"):
        install.install(plpython_url, python_paths=[str(base / "site")])
    assert not sprung.exists()
    # The trap would have worked.
    base.chmod(0o755)
    sprung.touch()
    sprung.chmod(0o666)
    sprung.write_text("untouched")
    trap.chmod(0o644)
    for folder in (base / "site", base / "site" / "dbanon"):
        folder.chmod(0o755)
    with pytest.raises(PythonNotUsable):
        install.install(plpython_url, python_paths=[str(base / "site")])
    assert sprung.read_text() == ""


@AS_ROOT
def test_an_owner_can_be_trusted_explicitly(plpython_url: str, backend_path: Path) -> None:
    path = backend_path / "dbanon"
    os.chown(path, OTHER.pw_uid, -1)
    try:
        command_line = ["install", plpython_url, "--python-path", str(backend_path)]
        refused = CliRunner().invoke(main, command_line)
        assert refused.exit_code == 2
        assert f"--trust-owner {OTHER.pw_name}" in refused.stderr
        for command in ("install", "upgrade"):
            command_line[0] = command
            done = CliRunner().invoke(main, [*command_line, "--trust-owner", OTHER.pw_name])
            assert done.exit_code == 0, done.output
            assert f"WARNING: {OTHER.pw_name} can run code" in done.stderr
    finally:
        os.chown(path, 0, -1)


def test_the_check_only_needs_the_standard_library() -> None:
    """The server's Python runs its source."""
    text = Path(python_path.__file__).read_text()
    assert "import dbanon" not in text
    assert "from dbanon" not in text
