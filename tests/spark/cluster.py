"""A local Spark cluster for tests: a master, and workers with one core each.

Each process is the leader of its own group, and is ended by its recorded process id.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

HOST = "127.0.0.1"
_STARTED = 90.0
# Java processes live for seconds here, so optimizations for long runs cost more than they gain. For
# the same reason classes of Spark and Java are not verified again in each. Spark generates so much
# code that 48 MB, the default here, have a thread look for unused code all the time. The pause
# differs from the one that dbanon chooses, which a test relies on.
PAUSE = "-XX:MaxGCPauseMillis=900"
JAVA = (
    f"{PAUSE}"
    " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
# Settings for small runs, for drivers and the processes that they start.
SMALL = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
}


class NoSparkError(RuntimeError):
    """Spark cannot be run; the message says why."""


def require_spark() -> None:
    """Check that pyspark and a Java are here.

    Raises
    ------
    NoSparkError : one is missing.
    """
    if find_spec("pyspark") is None:
        raise NoSparkError("no pyspark: make setup")
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise NoSparkError("no Java: .ci/prepare.sh java")
    version_text = subprocess.run(
        [java, "-version"], capture_output=True, text=True, check=False
    ).stderr
    version = re.search(r'version "(\d+)', version_text)
    if version is None or int(version[1]) < 17:
        raise NoSparkError("Java is older than 17: .ci/prepare.sh java")


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@dataclass
class Cluster:
    """A master and its workers.

    Parameters
    ----------
    place : directory for their files; the caller removes it.
    n_workers : number of workers, with one core each.
    """

    folder: Path
    n_workers: int = 2
    port: int = field(default_factory=free_port)
    secret: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def master(self) -> str:
        """The URL for drivers."""
        return f"spark://{HOST}:{self.port}"

    @property
    def conf(self) -> dict[str, str]:
        """The settings that a driver needs to connect, and small sizes."""
        return SMALL | {
            "spark.authenticate": "true",
            "spark.authenticate.secret": self.secret,
            "spark.network.crypto.enabled": "true",
            "spark.io.encryption.enabled": "true",
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.driver.memory": "640m",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.cores.max": str(self.n_workers),
            "spark.local.dir": str(self.folder / "local"),
        }

    def start(self) -> None:
        """Start it, and wait until the master knows all workers."""
        (self.folder / "local").mkdir()
        settings_file = self.folder / "spark.conf"
        with os.fdopen(os.open(settings_file, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            for name in (
                "spark.authenticate",
                "spark.authenticate.secret",
                "spark.network.crypto.enabled",
            ):
                file.write(f"{name} {self.conf[name]}\n")
        arguments = ["--host", HOST, "--properties-file", str(settings_file)]
        ports = ["--port", str(self.port), "--webui-port", str(free_port())]
        self._run("master", "org.apache.spark.deploy.master.Master", *arguments, *ports)
        self._wait("master", "I have been elected leader", 1)
        for number in range(self.n_workers):
            work = self.folder / f"work{number}"
            self._run(
                f"worker{number}",
                "org.apache.spark.deploy.worker.Worker",
                *arguments,
                "--webui-port",
                str(free_port()),
                "--cores",
                "1",
                "--memory",
                "1g",
                "--work-dir",
                str(work),
                self.master,
            )
        self._wait("master", "Registering worker", self.n_workers)

    def _run(self, name: str, *words: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        environment: Mapping[str, str] = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA,
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
        }
        with self.log(name).open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    [home / "bin" / "spark-class", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    cwd=self.folder,
                    start_new_session=True,
                )
            )

    def log(self, name: str) -> Path:
        """The log file of one of its processes."""
        return self.folder / f"{name}.log"

    def _wait(self, name: str, text: str, times: int) -> None:
        end = time.monotonic() + _STARTED
        while self.log(name).read_text(errors="replace").count(text) < times:
            ended = [process for process in self.processes if process.poll() is not None]
            if ended or time.monotonic() > end:
                log_tail = self.log(name).read_text(errors="replace")[-2000:]
                raise NoSparkError(f"the cluster's {name} did not start: {log_tail}")
            time.sleep(0.1)

    def logs(self) -> str:
        """The logs of all its processes, including executors."""
        files = [*self.folder.glob("*.log"), *self.folder.glob("work*/*/*/std*")]
        return "\n".join(path.read_text(errors="replace") for path in files)

    def executors(self) -> list[int]:
        """The process ids of the running executors."""
        pids = []
        for process in self.processes[1:]:
            pids += [pid for pid in descendants(process.pid) if _is_executor(pid)]
        return pids

    def stop(self) -> None:
        """End all started processes and their children."""
        for process in reversed(self.processes):
            below = descendants(process.pid)
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)
            for pid in below:
                end(pid)


def descendants(pid: int) -> list[int]:
    """The children of a process, and their children."""
    children: dict[int, list[int]] = {}
    for process_folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (process_folder / "stat").read_text()
        except OSError:
            continue
        # The name, in parentheses, may contain anything.
        parent = int(status.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(process_folder.name))
    children_of_all, todo = [], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        children_of_all += below
        todo += below
    return children_of_all


def end(pid: int) -> None:
    """Kill a process if it still exists."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _is_executor(pid: int) -> bool:
    try:
        command_line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"CoarseGrainedExecutorBackend" in command_line
