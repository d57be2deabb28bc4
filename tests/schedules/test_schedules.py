"""The schedule examples: parsed as their schedulers do, and their commands run without them."""

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
from tests.schedules.commands import EXAMPLES, ROOT, Site, answers, link_program, run

FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
UNITS = EXAMPLES / "systemd"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.make(tmp_path / "srv")


def crontab() -> tuple[str, str]:
    """The fields and the command of the only line."""
    lines = (EXAMPLES / "crontab").read_text().splitlines()
    [line] = [line for line in lines if line and line[0] != "#" and not re.match(r"\w+ *=", line)]
    *fields, command = line.split(None, 5)
    return " ".join(fields), command


def is_monthly(schedule: str) -> bool:
    fields = schedule.split()
    for field, (low, high) in zip(fields, FIELDS, strict=True):
        assert field == "*" or low <= int(field) <= high
    return fields[2:] == ["1", "*", "*"]


def cron(site: Site, programs: Path) -> subprocess.CompletedProcess[str]:
    """Run the crontab line with local paths in its environment file."""
    text = (EXAMPLES / "dbanon.env").read_text()
    variables = {
        "DBANON_SOURCE": site.source,
        "DBANON_OUT": f"{site.folder}/out",
        "PATH": f"{programs}:$PATH",
    }
    for name, value in variables.items():
        text, replaced = re.subn(
            rf'^export {name}=".*"$', f'export {name}="{value}"', text, flags=re.M
        )
        assert replaced == 1
    (site.folder / "dbanon.env").write_text(text)
    return run(crontab()[1].replace("/srv/dbanon", str(site.folder)), site, {})


def test_the_line_of_cron_releases_and_prints_nothing(site: Site, tmp_path: Path) -> None:
    schedule, command = crontab()
    assert is_monthly(schedule)
    # cron reads it as a newline.
    assert "%" not in command
    done = cron(site, link_program(tmp_path / "bin"))
    log = (site.folder / "dbanon.log").read_text()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), log
    assert site.released() == 1
    assert "k requested / counted" in (site.folder / "report.txt").read_text()
    assert (site.folder / "report.txt").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("code", [0, 3, 4, 99])
def test_cron_mails_only_failures(site: Site, tmp_path: Path, code: int) -> None:
    done = cron(site, answers(tmp_path / "bin", code))
    failed = code not in (0, 99)
    assert done.stdout.startswith("dbanon failed: see ") == failed
    assert bool(done.stdout) == failed


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((UNITS / name).read_text())
    return parser


def exec_start(site: Site, programs: Path) -> str:
    """ExecStart as systemd runs it, with local directories in place of the service's."""
    service = unit("dbanon@.service")["Service"]
    shell, option, script = shlex.split(service["ExecStart"])
    assert (shell, option) == ("/bin/sh", "-c")
    assert "$" not in script.replace("$$", "")
    script = script.replace("$$", "$").replace("%i", "job")
    for deployed, local in (("/opt/dbanon/bin", programs), ("/etc/dbanon", site.folder)):
        script = script.replace(deployed, str(local))
    return script


@pytest.mark.parametrize("code", [None, 0, 4, 99])
def test_the_service_runs_its_file(site: Site, tmp_path: Path, code: int | None) -> None:
    programs = tmp_path / "bin"
    script = exec_start(site, link_program(programs) if code is None else answers(programs, code))
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "source").write_text(site.source + "\n")
    done = run(
        script,
        site,
        {
            "CREDENTIALS_DIRECTORY": str(credentials),
            "DBANON_OUT": str(site.folder / "out"),
        },
    )
    assert done.returncode == (code or 0), done.stderr
    assert site.released() == (code is None)
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
        assert run(script, site, {"CREDENTIALS_DIRECTORY": str(credentials)}).returncode != 0
        assert site.released() == 1


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
        # Unknown keys are only reported.
        assert str(tmp_path) not in done.stderr


def test_the_job_of_kubernetes_runs_once_at_a_time(site: Site, tmp_path: Path) -> None:
    manifest = yaml.safe_load((EXAMPLES / "kubernetes.yaml").read_text())
    assert manifest["kind"] == "CronJob"
    assert is_monthly(manifest["spec"]["schedule"])
    assert manifest["spec"]["concurrencyPolicy"] == "Forbid"
    pod = manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    [container] = pod["containers"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    command = shlex.join(container["command"]).replace("/etc/dbanon", str(site.folder))
    programs = link_program(tmp_path / "bin")
    names = {variable["name"] for variable in container["env"]}
    assert names == {"DBANON_SOURCE", "DBANON_OUT"}
    done = run(
        command,
        site,
        {
            "PATH": f"{programs}:/usr/bin:/bin",
            "DBANON_SOURCE": site.source,
            "DBANON_OUT": str(site.folder / "out"),
        },
    )
    assert done.returncode == 0, done.stderr
    assert site.released() == 1


def test_the_job_file_is_one() -> None:
    [job] = read_job_file(EXAMPLES / "job.yaml").jobs
    assert job.name == "patients"
