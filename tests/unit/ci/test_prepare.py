"""``.ci/prepare.sh`` on a separate Debian: the packages requested from apt-get, and the sources
left enabled.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PREPARE = Path(__file__).resolve().parents[3] / ".ci" / "prepare.sh"
POLICY = "usr/sbin/policy-rc.d"
# apt-get installs a package whose service is enabled by systemd, for users, and by SysV's init, and
# notes whether the policy forbids to start it.
STUBS = {
    "id": "echo 0",
    "apt-get": r"""
echo "$*" >>"$LOG"
case " $* " in
  *" download "*)
    for name; do
      case $name in -*|download|APT*) ;; *) touch "${name}_1.deb" ;; esac
    done ;;
  *" satisfy "* | *" install "*)
    if "$DBANON_TEST_SYSTEM/usr/sbin/policy-rc.d"; then :; else echo "policy $?" >>"$LOG"; fi
    ln -s /x "$DBANON_TEST_SYSTEM/etc/systemd/system/multi-user.target.wants/new.service"
    ln -s /x "$DBANON_TEST_SYSTEM/etc/systemd/user/new.socket"
    ln -s ../init.d/new "$DBANON_TEST_SYSTEM/etc/rc2.d/S01new" ;;
esac""",
    "apt-cache": "echo 'postgresql-plpython3-17 - x'; echo 'postgresql-plpython3-9 - x'",
    "dpkg-deb": r"""
case $1 in
  --field)
    [ "$3" != Depends ] || echo 'libpq5 (>= 17), postgresql-common, ssl-cert, libc6 | libc' ;;
  --extract)
    programs=$3/usr/lib/postgresql/17/bin
    mkdir -p "$programs" "$3/usr/sbin"
    for name in "$programs/postgres" "$programs/initdb" "$3/usr/sbin/pgbouncer"; do
      echo 'echo postgres 17' >"$name"
      chmod +x "$name"
    done ;;
esac""",
    "dpkg-query": "echo 'ii  old'; ! grep -qE 'satisfy|install' \"$LOG\" || echo 'ii  new'",
    "update-rc.d": 'echo "update-rc.d $*" >>"$LOG"; rm "$DBANON_TEST_SYSTEM"/etc/rc2.d/S01"$1"',
    "getent": 'grep -qs localhost "$DBANON_TEST_SYSTEM/etc/hosts"',
    # Outside of dpkg it does nothing.
    "deb-systemd-helper": "exit 1",
}


TOOLS = """
basename bash cat chmod comm cp cut dirname env find grep ln mkdir mktemp mv paste readlink rm sed
sh sleep sort tail touch tr
"""


class Debian:
    """A system in a folder, and the log of the calls to it."""

    def __init__(self, folder: Path) -> None:
        self.root, self.programs, self.log_path = folder / "root", folder / "opt", folder / "log"
        self.log_path.touch()
        commands = folder / "commands"
        for part in (
            "etc/systemd/system/multi-user.target.wants",
            "etc/systemd/user",
            "etc/rc2.d",
            "usr/sbin",
        ):
            (self.root / part).mkdir(parents=True)
        self.old = self.root / "etc/systemd/system/multi-user.target.wants/old.service"
        self.old.symlink_to("/x")
        commands.mkdir()
        for name, body in STUBS.items():
            (commands / name).write_text(f"#!/bin/sh\n{body}\n")
            (commands / name).chmod(0o755)
        # No server of this machine.
        for name in TOOLS.split():
            program = shutil.which(name)
            assert program is not None, name
            (commands / name).symlink_to(program)
        self.environment = {
            "PATH": str(commands),
            "LOG": str(self.log_path),
            "DBANON_TEST_SYSTEM": str(self.root),
            "DBANON_TEST_PROGRAMS": str(self.programs),
            "TMPDIR": str(folder),
        }

    def prepare(self, part: str) -> str:
        done = subprocess.run(
            [PREPARE, part], env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def links(self) -> list[Path]:
        return [
            Path(folder) / name
            for folder, folders, files in os.walk(self.root / "etc")
            for name in (*folders, *files)
            if (Path(folder) / name).is_symlink()
        ]

    def log(self) -> list[str]:
        return self.log_path.read_text().splitlines()


@pytest.fixture
def debian(tmp_path: Path) -> Debian:
    return Debian(tmp_path)


def test_no_package_of_a_server_is_installed(debian: Debian) -> None:
    text = debian.prepare("postgres")
    install_lines = [line for line in debian.log() if " satisfy " in line or " install " in line]
    assert install_lines == ["--yes --no-install-recommends satisfy libc6 | libc,libpq5 (>= 17)"], (
        text
    )
    downloads = [line.partition(" download ")[2] for line in debian.log() if "download" in line]
    assert downloads == [
        "postgresql-17 postgresql-client-17 postgresql-plpython3-17",
        "postgresql-17-cron",
        "pgbouncer",
    ]
    assert (debian.programs / "postgresql/usr/lib/postgresql/17/bin/postgres").exists()
    assert not (debian.programs / "download").exists()
    # The second time nothing is missing.
    before = debian.log()
    assert debian.prepare("postgres") == ""
    assert debian.log() == before


def test_nothing_starts_and_nothing_new_is_enabled(debian: Debian) -> None:
    debian.prepare("mariadb")
    assert "policy 101" in debian.log()
    assert not (debian.root / POLICY).exists()
    assert debian.links() == [debian.old]
    assert [line for line in debian.log() if "new" in line] == ["update-rc.d new disable"]
    assert (debian.programs / "debian-packages").read_text() == "new\n"


def test_localhost_is_added_where_no_one_knows_it(debian: Debian) -> None:
    hosts = debian.root / "etc/hosts"
    assert "added to /etc/hosts" in debian.prepare("java")
    assert hosts.read_text() == "127.0.0.1 localhost\n"
    hosts.write_text("127.0.0.1 localhost own\n")
    assert "hosts" not in debian.prepare("java")
    assert hosts.read_text() == "127.0.0.1 localhost own\n"


def test_a_policy_of_the_machine_stays(debian: Debian) -> None:
    policy = debian.root / POLICY
    policy.write_text("#!/bin/sh\nexit 104\n")
    policy.chmod(0o755)
    debian.prepare("mariadb")
    assert "policy 104" in debian.log()
    assert policy.read_text() == "#!/bin/sh\nexit 104\n"


def test_a_server_with_plpython_is_left_alone(debian: Debian) -> None:
    installed = debian.root / "usr/lib/postgresql/16"
    for name in ("bin/initdb", "bin/postgres", "lib/plpython3.so", "lib/pg_cron.so"):
        (installed / name).parent.mkdir(parents=True, exist_ok=True)
        (installed / name).write_text("#!/bin/sh\necho postgres 16\n")
        (installed / name).chmod(0o755)
    (debian.root / "usr/sbin/pgbouncer").symlink_to(installed / "bin/postgres")
    assert debian.prepare("postgres") == ""
    assert debian.log() == []
    # One without PL/Python is not completed in place either.
    (installed / "lib/plpython3.so").unlink()
    debian.prepare("postgres")
    assert any("download postgresql-16 " in line for line in debian.log())
    assert not any(" install " in line for line in debian.log())
