"""The examples of schedules: parsed as their schedulers do, and their commands run without them."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from dbanon.doors.jobfile.file import read_job_file
from tests.prerequisites import skip_optional
from tests.schedules.commands import EXAMPLES, ROOT, Place, answers, linked, run

FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
UNITS = EXAMPLES / "systemd"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path / "srv")


def crontab() -> tuple[str, str]:
    """The fields and the command of the only line."""
    lines = (EXAMPLES / "crontab").read_text().splitlines()
    [line] = [one for one in lines if one and one[0] != "#" and not re.match(r"\w+ *=", one)]
    *fields, command = line.split(None, 5)
    return " ".join(fields), command


def is_monthly(schedule: str) -> bool:
    fields = schedule.split()
    for field, (low, high) in zip(fields, FIELDS, strict=True):
        assert field == "*" or low <= int(field) <= high
    return fields[2:] == ["1", "*", "*"]


def cron(place: Place, programs: Path) -> subprocess.CompletedProcess[str]:
    """Run the line of crontab; its environment file names what is here."""
    text = (EXAMPLES / "dbanon.env").read_text()
    given = {
        "DBANON_SOURCE": place.source,
        "DBANON_OUT": f"{place.folder}/out",
        "PATH": f"{programs}:$PATH",
    }
    for name, value in given.items():
        text, found = re.subn(
            rf'^export {name}=".*"$', f'export {name}="{value}"', text, flags=re.M
        )
        assert found == 1
    (place.folder / "dbanon.env").write_text(text)
    return run(crontab()[1].replace("/srv/dbanon", str(place.folder)), place, {})


def test_the_line_of_cron_releases_and_prints_nothing(place: Place, tmp_path: Path) -> None:
    schedule, command = crontab()
    assert is_monthly(schedule)
    # To cron it is a new line.
    assert "%" not in command
    done = cron(place, linked(tmp_path / "bin"))
    log = (place.folder / "dbanon.log").read_text()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), log
    assert place.released() == 1
    assert "k requested / counted" in (place.folder / "report.txt").read_text()
    assert (place.folder / "report.txt").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("code", [0, 3, 4, 99])
def test_cron_mails_what_failed_and_nothing_else(place: Place, tmp_path: Path, code: int) -> None:
    done = cron(place, answers(tmp_path / "bin", code))
    failed = code not in (0, 99)
    assert done.stdout.startswith("dbanon failed: see ") == failed
    assert bool(done.stdout) == failed


def unit(name: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, strict=True, delimiters=("=",))
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string((UNITS / name).read_text())
    return found


def started(place: Place, programs: Path) -> str:
    """ExecStart as systemd runs it, with what is here in place of the service's directories."""
    service = unit("dbanon@.service")["Service"]
    shell, option, script = shlex.split(service["ExecStart"])
    assert (shell, option) == ("/bin/sh", "-c")
    assert "$" not in script.replace("$$", "")
    script = script.replace("$$", "$").replace("%i", "job")
    for there, here in (("/opt/dbanon/bin", programs), ("/etc/dbanon", place.folder)):
        script = script.replace(there, str(here))
    return script


@pytest.mark.parametrize("code", [None, 0, 4, 99])
def test_the_service_runs_its_file(place: Place, tmp_path: Path, code: int | None) -> None:
    programs = tmp_path / "bin"
    script = started(place, linked(programs) if code is None else answers(programs, code))
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "source").write_text(place.source + "\n")
    done = run(
        script,
        place,
        {
            "CREDENTIALS_DIRECTORY": str(credentials),
            "DBANON_OUT": str(place.folder / "out"),
        },
    )
    assert done.returncode == (code or 0), done.stderr
    assert place.released() == (code is None)
    service = unit("dbanon@.service")["Service"]
    assert service["SuccessExitStatus"] == "99"
    assert service["Restart"] == "on-failure"
    table = (ROOT / "docs" / "cli.md").read_text().rpartition("## Exit codes")[2]
    rows = re.findall(r"^\| ([\d, ]+) \|", table, re.M)
    codes = {int(code) for row in rows for code in row.split(",")}
    prevented = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert codes - {0, 4, 7, 99} == prevented
    if code is None:
        (credentials / "source").unlink()
        assert run(script, place, {"CREDENTIALS_DIRECTORY": str(credentials)}).returncode != 0
        assert place.released() == 1


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    timer = unit("dbanon@.timer")["Timer"]
    assert timer["Persistent"] == "true"
    if shutil.which("systemd-analyze") is None:
        skip_optional("no systemd-analyze")
    for name in ("dbanon@.service", "dbanon@.timer"):
        shutil.copy2(UNITS / name, tmp_path)
    for words in (
        ["verify", "--man=no", *map(str, tmp_path.iterdir())],
        ["calendar", timer["OnCalendar"]],
        ["timespan", timer["RandomizedDelaySec"]],
        ["security", "--offline=true", "--threshold=40", str(tmp_path / "dbanon@.service")],
    ):
        done = subprocess.run(
            ["systemd-analyze", "--no-pager", *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        # What it does not know it only tells.
        assert str(tmp_path) not in done.stderr


def test_the_job_of_kubernetes_runs_once_at_a_time(place: Place, tmp_path: Path) -> None:
    found = yaml.safe_load((EXAMPLES / "kubernetes.yaml").read_text())
    assert found["kind"] == "CronJob"
    assert is_monthly(found["spec"]["schedule"])
    assert found["spec"]["concurrencyPolicy"] == "Forbid"
    pod = found["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    [container] = pod["containers"]
    mounted = {one["name"] for one in container["volumeMounts"]}
    assert mounted == {one["name"] for one in pod["volumes"]}
    command = shlex.join(container["command"]).replace("/etc/dbanon", str(place.folder))
    programs = linked(tmp_path / "bin")
    names = {one["name"] for one in container["env"]}
    assert names == {"DBANON_SOURCE", "DBANON_OUT"}
    done = run(
        command,
        place,
        {
            "PATH": f"{programs}:/usr/bin:/bin",
            "DBANON_SOURCE": place.source,
            "DBANON_OUT": str(place.folder / "out"),
        },
    )
    assert done.returncode == 0, done.stderr
    assert place.released() == 1


def test_the_job_file_is_one() -> None:
    [job] = read_job_file(EXAMPLES / "job.yaml").jobs
    assert job.name == "patients"
