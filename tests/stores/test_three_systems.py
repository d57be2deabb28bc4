"""A hospital's three systems over six months, run by the commands that docs/jobs.md prints.

Admissions come as a messy CSV file in Latin-1, the laboratory is in MariaDB, and stays come as
Parquet in an object store. In the second month a number grows, in the third the input is truncated,
in the fourth the disk is full, in the fifth the run is killed; the others are ordinary.

The test recounts every published file itself, and searches everything that was written for
patients.
"""

from __future__ import annotations

import csv
import io
import os
import re
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import Result
from pyarrow import parquet

from dbanon.stores.exports import destinations
from dbanon.stores.objects import ObjectPath
from tests.object_server import served
from tests.schedules.commands import EXAMPLES, PROGRAM
from tests.stores import job_lines
from tests.stores.databases import MariadbDatabase
from tests.stores.forked import Command
from tests.stores.hospital import Hospital
from tests.stores.test_full_disk import limited_files

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")]

K, MONTHS = 5, 6
KEEP = '{role: keep, reason: "the test counts by it"}'
# A run that ends at the step of an export: python -c, class, step, words of the command.
KILLED = """\
import os, signal, sys
from dbanon.doors.cli.main import main
from dbanon.stores.exports import destinations

def killed(*given, **more):
    os.kill(os.getpid(), signal.SIGKILL)

owner, step, *words = sys.argv[1:]
setattr(getattr(destinations, owner), step, killed)
main(words)
"""


class System(ABC):
    """One system: what it hands on each month, and the folder of its job file.

    ``decisions`` are what a person changes in the file that init writes: from a pattern to a text.
    """

    name: ClassVar[str]
    entity: ClassVar[str]
    # The columns of receipts and costs.
    receipt: ClassVar[str] = "receipt"
    cost: ClassVar[str] = "cost"
    # Whether the ledger is where the rows are, so that reports count joint histories.
    counts_histories: ClassVar[bool] = False
    decisions: ClassVar[tuple[tuple[str, str], ...]]
    # At which step of an export its run is killed in the fifth month, and whether that release was
    # committed by then.
    killed_at: ClassVar[tuple[str, str]]
    killed_late: ClassVar[bool] = False
    # After which steps of an export the disk is full in the fourth month: for the file, and for the
    # ledger, if that is on this machine.
    full_at: ClassVar[tuple[tuple[str, str], ...]] = (("", "begin"),)

    def __init__(self, folder: Path) -> None:
        self.folder = folder / self.name
        self.folder.mkdir()
        self.job = self.folder / "job.yaml"
        self.written: list[str] = []
        self.month = 1

    @abstractmethod
    def deliver(self, hospital: Hospital) -> None:
        """Hand on this month's rows."""

    @abstractmethod
    def truncate(self) -> Iterator[tuple[str, int]]:
        """Hand on a part of them, in one way after the other, and then all of them.

        Gives the code of the error and that of the exit.
        """

    @property
    def disk(self) -> Path:
        """Where files of exports are written."""
        return self.folder / "out"

    @abstractmethod
    def init(self) -> Result:
        """Ask for a job file."""

    @abstractmethod
    def exports(self) -> dict[str, bytes]:
        """The files of releases by name."""

    def rows_of(self, file: bytes) -> list[dict[str, object]]:
        """The rows of an exported file."""
        return parquet.read_table(io.BytesIO(file)).to_pylist()

    def call(self, *words: object) -> Result:
        """A command of this month, in the folder of the job file."""
        directory = Path.cwd()
        os.chdir(self.folder)
        try:
            done = job_lines.call(*words, year="2026", month=f"{self.month:02}")
        finally:
            os.chdir(directory)
        self.written += [done.stdout, done.stderr]
        return done

    def run(self) -> Result:
        done = self.call("run", "job.yaml")
        assert done.exit_code == 0, done.stderr
        (self.folder / "report.txt").write_text(done.stdout, encoding="utf-8")
        return done

    def run_as_cron_does(self) -> None:
        """Runs the line of examples/schedule/crontab, which prints nothing."""
        line = (EXAMPLES / "crontab").read_text(encoding="utf-8").splitlines()[-1]
        command = line.split(maxsplit=5)[5].replace("/srv/dbanon", str(self.folder))
        if self.chained:
            # As docs/schedules.md says.
            command = command.replace(" --skip-unchanged", "")
        (self.folder / "dbanon.env").write_text(
            f'export PATH="{PROGRAM.parent}:$PATH" year=2026 month={self.month:02} COLUMNS=200\n'
            "umask 077\n"
        )
        passed = {name: os.environ[name] for name in os.environ if name.startswith("AWS_")}
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder), **passed},
        )
        self.written.append((self.folder / "dbanon.log").read_text(encoding="utf-8"))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), self.written[-1]
        self.written.append((self.folder / "report.txt").read_text(encoding="utf-8"))

    def propose_and_decide(self) -> None:
        proposed = self.init()
        assert proposed.exit_code == 0, proposed.stderr
        text = proposed.stdout
        for pattern, decision in self.decisions:
            text, count = re.subn(pattern, decision, text, flags=re.MULTILINE)
            # The comment on a chain may name the file, too.
            assert count >= 1, (pattern, text)
        if "\n    chain: " not in text:
            # Where no chain is kept, someone decides that releases may be intersected.
            text, count = re.subn(
                r"^    columns:",
                "    releases: independent\n    columns:",
                text,
                flags=re.MULTILINE,
            )
            assert count == 1
        if f"\n    entity: {self.entity}" not in text:
            text = text.replace("\n    columns:", f"\n    entity: {self.entity}\n    columns:")
        text = text.replace("expect: {rows: 30 %}", "expect: {rows: 30 %, persons: 30 %}")
        self.job.write_text(text + "\nmetrics: dbanon.prom\n", encoding="utf-8")

    @property
    def job_text(self) -> str:
        return self.job.read_text(encoding="utf-8")

    @property
    def chained(self) -> bool:
        return "\n    chain: " in self.job_text

    def killed(self) -> None:
        """Kill a run at its step."""
        owner, step = self.killed_at
        env = {**os.environ, "year": "2026", "month": f"{self.month:02}"}
        directory = Path.cwd()
        os.chdir(self.folder)
        try:
            with Command(KILLED, owner, step, "run", "job.yaml", env=env) as command:
                self.written += command.communicate(60)
                assert command.returncode == -signal.SIGKILL, self.written[-1]
        finally:
            os.chdir(directory)


class Admissions(System):
    name, entity, receipt, cost = "admission", "Patienten-Nr", "Beleg", "Kosten"
    decisions = (
        (r"admission-2026-01", "admission-${year}-${month}"),
        (r"Aufnahme: +{role: .*", "Aufnahme: {role: drop}"),
        (r"Versicherung: +{role: .*", "Versicherung: {role: identifier}"),
        (r"Beleg: +{role: .*", f"Beleg: {KEEP}"),
        (r"Diagnose: +{role: sensitive", r"\g<0>, models: [{kind: distinct_l, level: 2}]"),
        (
            r"^    output:",
            '    export: [{format: csv, path: "out/{release}.csv", separator: ";",'
            ' decimal: ",", byte_order_mark: true, keep_last: 12}]\n    output:',
        ),
    )
    full_at = (("", "begin"), ("PendingFile", "upload"))
    killed_at = ("PendingFile", "upload")

    def deliver(self, hospital: Hospital) -> None:
        self.file = self.folder / f"admission-2026-{hospital.month:02}.csv"
        self.rows = hospital.admissions()
        self.file.write_bytes(self.rows)

    def truncate(self) -> Iterator[tuple[str, int]]:
        half = self.rows[: len(self.rows) // 2]
        self.file.write_bytes(half[: half.rindex(b";")])
        yield "file_malformed", 2
        self.file.write_bytes(half[: half.rindex(b"\r\n") + 2])
        yield "unexpected_counts", 6
        # Like an update of the system that writes the file.
        self.file.write_bytes(self.rows.decode("latin-1").encode())
        yield "file_malformed", 2
        self.file.write_bytes(self.rows)

    def init(self) -> Result:
        # Someone who knows nothing about the file can do this: the hints say what to do.
        words = ["init", f"file:{self.file.name}", "--table", "admission"]
        refused = self.call(*words)
        assert refused.exit_code == 2
        assert "--encoding windows-1252" in refused.stderr
        words += ["--encoding", "latin-1", "--null-words", "k.A.,unbekannt"]
        return self.call(*words)

    def exports(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.folder / "out").iterdir()}

    def rows_of(self, file: bytes) -> list[dict[str, object]]:
        text = io.StringIO(file.decode("utf-8-sig"))
        return [dict(row) for row in csv.DictReader(text, delimiter=";")]


class Laboratory(System):
    name, entity, cost, counts_histories = "result", "patient_no", "value", True
    decisions = (
        (r" receipt: +{role: .*", f" receipt: {KEEP}"),
        (r" full_name: +{role: .*", " full_name: {role: identifier}"),
        (
            r"^    output:",
            '    export: [{format: parquet, path: "out/{release}.parquet",'
            ' keep_last: 12}]\n    report: "out/{release}.json"\n    output:',
        ),
    )
    killed_at = ("PendingFile", "flush")
    TABLE: ClassVar[str] = (
        "CREATE TABLE result (patient_no BIGINT, full_name VARCHAR(80), birth_date DATE,"
        " test VARCHAR(10), value DECIMAL({digits},2), diagnosis VARCHAR(10), receipt VARCHAR(16))"
    )

    def __init__(self, folder: Path, database: MariadbDatabase) -> None:
        super().__init__(folder)
        self.database = database

    def deliver(self, hospital: Hospital) -> None:
        self.rows = hospital.laboratory()
        self._load(self.rows)

    def _load(self, rows: list[tuple[object, ...]]) -> None:
        self.database.execute("DROP TABLE IF EXISTS result")
        widest = max(len(str(row[4])) - 1 for row in rows)
        self.database.execute(self.TABLE.format(digits=widest))
        connection = self.database.server.connect("app")
        try:
            connection.cursor().executemany(
                "INSERT INTO result VALUES (%s, %s, %s, %s, %s, %s, %s)", rows
            )
        finally:
            connection.close()

    def truncate(self) -> Iterator[tuple[str, int]]:
        self._load(self.rows[: len(self.rows) // 2])
        yield "unexpected_counts", 6
        self._load(self.rows)

    def init(self) -> Result:
        return self.call("init", self.database.url, "--table", "result")

    def exports(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.folder / "out").glob("*.parquet")}


class Stays(System):
    name, entity = "stay", "patient_no"
    decisions = (
        (r"stays/2026-01", "stays/${year}-${month}"),
        (r" receipt: +{role: .*", f" receipt: {KEEP}"),
        (
            r"^    output:",
            '    export: [{format: parquet, path: "s3://clinic/out/{release}.parquet",'
            " keep_last: 12}]\n    output:",
        ),
    )
    full_at = (("", "begin"), ("PendingObject", "upload"))
    killed_at, killed_late = ("PendingObject", "finish"), True

    def deliver(self, hospital: Hospital) -> None:
        self.object = ObjectPath.parse(f"s3://clinic/stays/2026-{hospital.month:02}.parquet")
        self.rows = hospital.stays()
        self._put(self.rows)

    def _put(self, content: bytes) -> None:
        with tempfile.TemporaryFile() as file:
            file.write(content)
            file.seek(0)
            self.object.put(file, len(content))

    def truncate(self) -> Iterator[tuple[str, int]]:
        self._put(self.rows[: len(self.rows) // 2])
        yield "file_malformed", 2
        half = parquet.read_table(io.BytesIO(self.rows))
        file = io.BytesIO()
        parquet.write_table(half.slice(0, len(half) // 2), file)
        self._put(file.getvalue())
        yield "unexpected_counts", 6
        self._put(self.rows)

    def init(self) -> Result:
        return self.call("init", "s3://clinic/stays/2026-01.parquet", "--table", "stay")

    @property
    def disk(self) -> Path:
        return Path(tempfile.gettempdir())

    def exports(self) -> dict[str, bytes]:
        exports = {}
        for path in ObjectPath.parse("s3://clinic/out").list_below():
            with path.open() as file:
                exports[path.key.rpartition("/")[2]] = file.read()
        return exports


@pytest.fixture
def systems(
    mariadb: MariadbDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[System]]:
    # The socket of the server that forks is elsewhere.
    get_temp_dir()
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with served():
        yield [Admissions(tmp_path), Laboratory(tmp_path, mariadb), Stays(tmp_path)]
    monkeypatch.undo()


def test_six_months_of_three_systems(systems: list[System], tmp_path: Path) -> None:
    hospital = Hospital()
    releases: dict[str, list[str]] = defaultdict(list)
    for month in range(1, MONTHS + 1):
        if month > 1:
            hospital.month_passes()
        for system in systems:
            system.month = month
            system.deliver(hospital)
            before = system.exports() if month > 1 else {}
            if month == 1:
                system.propose_and_decide()
                assert system.call("check", "job.yaml").exit_code == 0
            elif month == 3:
                is_refused_when_truncated(system)
            elif month == 4:
                is_refused_on_a_full_disk(system)
            elif month == 5:
                survives_a_kill(system)
            planned = system.call("plan", "job.yaml")
            assert planned.exit_code == 0, planned.stderr
            if month == MONTHS:
                system.run_as_cron_does()
            else:
                system.run()
            assert nothing_is_left(system, tmp_path)
            new_exports = system.exports().keys() - before.keys()
            assert len(new_exports) == 1 + (month == 5 and system.killed_late)
            releases[system.name] += new_exports
    for system in systems:
        count_persons(system, hospital)
        verify_files(system)
        find_no_patient(system, hospital)


def is_refused_when_truncated(system: System) -> None:
    before = system.exports()
    for code, exit_code in system.truncate():
        for command in ("plan", "run"):
            refused = system.call(command, "job.yaml")
            assert (refused.exit_code, f"[{code}]" in refused.stderr) == (exit_code, True), (
                refused.stderr
            )
        assert system.exports() == before
        assert metric(system, "dbanon_job_last_exit_code") == exit_code


def is_refused_on_a_full_disk(system: System) -> None:
    before = system.exports()
    for owner, step in system.full_at:
        with full_from(owner, step):
            refused = system.call("run", "job.yaml")
        assert (refused.exit_code, "[disk_full]" in refused.stderr) == (4, True), refused.stderr
        disk = system.folder if owner.startswith("Pending") else system.disk
        assert str(disk) in refused.stderr
        assert "Make room there" in refused.stderr
        assert system.exports() == before


@contextmanager
def full_from(owner: str, step: str) -> Iterator[None]:
    """A disk that is full once a run has done this step of an export."""
    of: Any = getattr(destinations, owner, destinations)
    done = getattr(of, step)
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:

        def full(*args: Any) -> Any:
            result = done(*args)
            stack.enter_context(limited_files(1 << 10))
            return result

        patch.setattr(of, step, full)
        yield


def survives_a_kill(system: System) -> None:
    before = system.exports()
    system.killed()
    after = {name: file for name, file in system.exports().items() if not name.startswith(".")}
    assert after == before
    begin, end = (
        metric(system, f"dbanon_job_last_{event}_timestamp_seconds") for event in ("begin", "end")
    )
    assert begin > end


def metric(system: System, name: str) -> float:
    text = (system.folder / "dbanon.prom").read_text(encoding="utf-8")
    [value] = re.findall(rf"^{name}{{[^}}]*}} (\S+)$", text, flags=re.MULTILINE)
    return float(value)


def nothing_is_left(system: System, tmp_path: Path) -> bool:
    """Whether a run left a temporary file anywhere."""
    assert [name for name in system.exports() if name.startswith(".")] == []
    assert list(tmp_path.rglob(".dbanon-*")) == []
    assert list((tmp_path / "scratch").iterdir()) == []
    return True


def count_persons(system: System, hospital: Hospital) -> None:
    """Each class of each release has k persons, and says the truth of each of them."""
    files = system.exports().values()
    histories: dict[int, list[object]] = {patient.number: [] for patient in hospital.ever}
    not_shared = {
        system.receipt,
        *re.findall(r"^      (\S+): +{role: sensitive", system.job_text, flags=re.MULTILINE),
    }
    for file in files:
        persons_of: dict[object, set[int]] = defaultdict(set)
        classes_of: dict[int, set[object]] = defaultdict(set)
        for row in system.rows_of(file):
            patient, cost = hospital.rows[str(row[system.receipt])]
            assert is_in(cost, str(row[system.cost]))
            values = tuple(value for name, value in row.items() if name not in not_shared)
            persons_of[values].add(patient.number)
            classes_of[patient.number].add(values)
        assert min(map(len, persons_of.values())) >= K
        for number, history in histories.items():
            history.append(frozenset(classes_of[number]))
    seen = [tuple(history) for history in histories.values() if any(history)]
    shared = Counter(seen)
    below = sum(shared[history] < K for history in seen)
    if system.chained:
        assert below == 0
    elif system.counts_histories:
        # The figures of the last report. Without a chain nearly all persons are affected.
        report = " ".join((system.folder / "report.txt").read_text(encoding="utf-8").split())
        assert f"JOINT HISTORIES {below} of {len(seen)} persons" in report
        assert f"over {len(files)} releases that fewer than {K} persons share" in report
        assert below > 0.9 * len(seen)


def is_in(number: Decimal, label: str) -> bool:
    """Whether a label, such as ``[850.00, 950.00)`` or ``*``, is true of a number."""
    interval = re.fullmatch(r"\[(\S+), (\S+)\)", label)
    if interval is None:
        return label in ("*", str(number))
    return Decimal(interval[1]) <= number < Decimal(interval[2])


def verify_files(system: System) -> None:
    for name, file in system.exports().items():
        if name.endswith(".parquet"):
            (system.folder / "verified").mkdir(exist_ok=True)
            (system.folder / "verified" / name).write_bytes(file)
            verified = system.call("verify", f"verified/{name}")
            assert verified.exit_code == 0, verified.stderr


def find_no_patient(system: System, hospital: Hospital) -> None:
    """No one's name, number or insurance appears in any output or published file.

    Nor does any output contain a birth date or a receipt.
    """
    printed = "\n".join(system.written)
    dates = [f"{p.born:{form}}" for p in hospital.ever for form in ("%Y-%m-%d", "%d.%m.%Y")]
    assert [word for word in (*dates, *hospital.rows) if word in printed] == []
    identifiers = [word for patient in hospital.ever for word in patient.identifiers]
    texts, contents = [*system.written], [*system.exports().values()]
    texts += [repr(system.rows_of(file)) for file in contents]
    contents += [
        path.read_bytes()
        for path in system.folder.rglob("*")
        if path.is_file() and not path.name.startswith("admission-2026")
    ]
    # Bytes are searched several times as fast as text that has been decoded.
    everything = b"\n".join([*contents, *(text.encode() for text in texts)])
    spelled = {word: {word.encode("utf-8"), word.encode("latin-1")} for word in identifiers}
    assert [word for word, forms in spelled.items() if any(f in everything for f in forms)] == []
