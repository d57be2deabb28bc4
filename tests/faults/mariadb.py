"""MariaDB under adversity: its own way to a release, with readers beside it all the while.

Tables and columns have odd names. What ends a run is a signal to the client, the end of the server
or of a session, a server that answers nothing, another run, or a reader that keeps the old release.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from random import Random

import pymysql

from tests.faults.cases import Case
from tests.faults.doors import Outcome, split
from tests.faults.kills import SIGNALS, Client, Struck, client, ended, go, order_of
from tests.faults.mariadb_place import MariadbPlace
from tests.faults.places import Place
from tests.faults.scenario import Result
from tests.faults.tables import NASTY, Column, Table, quote
from tests.faults.yard import Yard
from tests.mariadb_server import Readers

# From the signal, behind a server that answers nothing: as of networks that stall.
SECONDS_TOLD = 15.0
WAYS = (
    *SIGNALS,
    *SIGNALS,
    "crash",
    "crash",
    "KILL CONNECTION",
    "KILL QUERY",
    "stall",
    "race",
    "idle reader",
    "refused",
)
_OUTPUTS = ("people", "people", 'out"people', "o`people", "Out put people", "%speople")
_TEXTS = (
    "varchar(60)",
    "varchar(60) COLLATE utf8mb4_bin",
    "varchar(60) COLLATE utf8mb4_unicode_ci",
)
# To most collations these are fewer.
_LABELS = ("qzmark a", "QZMARK A", "qzmark a ", "qzmark ä", "qzmark ss", "qzmark ß", "")


def mariadb_case(seed: int, number: int, rng: Random) -> Case:
    """A table of some thousand rows, whose names are odd."""
    n = rng.randint(1500, 4000)
    # The server's identifiers have three bytes a character at most.
    odd = [name for name in NASTY if max(map(ord, name)) < 0x10000 and name == name.strip()]
    rng.shuffle(odd)
    taken: set[str] = set()

    def name(plain: str) -> str:
        found = odd.pop() if rng.random() < 0.6 else plain
        while found.casefold() in taken:
            found = odd.pop()
        taken.add(found.casefold())
        return found

    def column(plain: str, family: str, kind: str, values: Callable[[], str]) -> Column:
        return Column(name(plain), family, kind, tuple(values() for _ in range(n)))

    columns = (
        column(
            "age",
            "integer",
            rng.choice(("int", "smallint", "bigint")),
            lambda: str(rng.randint(0, 99)),
        ),
        column("height", "float", "double", lambda: repr(round(rng.gauss(170, 12), 2))),
        column("site", "text", rng.choice(_TEXTS), lambda: rng.choice(_LABELS)),
        Column("uid", "integer", "int", tuple(str(7317300 + i) for i in range(n))),
    )
    table = Table(
        "app", rng.choice(("people", "select", 'peo"ple', "peo`ple", "p%s")), columns, "key", "uid"
    )
    shown = rng.choice(_OUTPUTS)
    arguments = {
        "k": 5,
        "method": rng.choice(("mdav", "mdav", "gaa_cp", "mondrian")),
        "quasi_identifiers": [columns[0].name, columns[1].name],
        "nulls": "error",
        "sensitive": [columns[2].name],
        "keep": ["uid"],
        "output": f"release.{quote(shown)}",
        "output_kind": "table",
    }
    return Case(seed, number, "mariadb", "command", None, table, arguments)


def run_mariadb(seed: int, number: int, yard: Yard) -> Result:
    """One run that something happens to, while readers look."""
    rng = Random(f"mariadb {seed} {number}")
    way = rng.choice(WAYS)
    case = mariadb_case(seed, number, rng)
    with Struck(case, yard, rng) as struck:
        seconds = struck.prepare(old=way == "idle reader")
        place = struck.place
        assert isinstance(place, MariadbPlace)
        readers = Readers(
            place.server, '"release"', place.relation(*split(case.arguments["output"]))
        )
        stood = [readers.digest()]
        strike = _Strike(struck, way, rng)
        more = {"idle reader": {"swap_timeout": 1}, "refused": {"k": len(struck.original) + 1}}
        with readers.reading(), strike.around():
            outcome = struck.strike(strike, seconds * rng.uniform(0.02, 0.8), **more.get(way, {}))
            strike.over()
            place.settle()
            readers.wait()
        shown = readers.digest()
        struck.result.add(way, readers.findings([*stood, shown]))
        struck.result.add(way, strike.findings(outcome, shown == stood[0]))
        if way == "race":
            outcome = next((one for one in (outcome, *strike.outcomes) if one.ok), outcome)
        struck.judge(outcome, way)
        answers = sum(readers.seen.values())
        if not answers and stood != [None]:
            struck.result.add(way, ["no reader had an answer"])
        struck.result.outcome = f"{way}: {struck.state}"
        struck.result.answers = answers
        return struck.result


class _Strike:
    """What happens to a run."""

    def __init__(self, struck: Struck, way: str, rng: Random) -> None:
        assert isinstance(struck.place, MariadbPlace)
        self.struck, self.place, self.way, self.rng = struck, struck.place, way, rng
        self.outcomes: list[Outcome] = []
        self.spent = 0.0
        self._other: threading.Thread | None = None

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """A reader that keeps the old release for the block, where that is the way."""
        if self.way != "idle reader":
            yield
            return
        with contextlib.closing(self.place.server.connect(user="reader")) as reader:
            cursor = reader.cursor()
            cursor.execute("SET SESSION sql_mode = 'ANSI_QUOTES'")
            cursor.execute("START TRANSACTION")
            output = self.place.relation(*split(self.struck.case.arguments["output"]))
            cursor.execute(f"SELECT count(*) FROM {output}")
            yield

    def __call__(self, running: Client, place: Place, after: float) -> None:
        way, server = self.way, self.place.server
        if way == "race":
            self._other = threading.Thread(target=self._race)
            self._other.start()
            return
        if way in ("idle reader", "refused"):
            return
        time.sleep(after)
        if way in SIGNALS:
            running.signal(SIGNALS[way])
        elif way == "crash":
            server.crash()
            time.sleep(0.05)
            server.start()
        elif way.startswith("KILL"):
            for number in self.place.sessions():
                # It may be over already.
                with contextlib.suppress(pymysql.err.Error):
                    self.place.execute(f"{way} {number}")
        else:
            self._stall(running)

    def _stall(self, running: Client) -> None:
        process = self.place.server.process_id
        os.kill(process, signal.SIGSTOP)
        try:
            time.sleep(0.2)
            told = time.monotonic()
            running.signal(self.rng.choice((signal.SIGTERM, signal.SIGINT)))
            with contextlib.suppress(Exception):
                running.process.wait(60)
            self.spent = time.monotonic() - told
        finally:
            os.kill(process, signal.SIGCONT)

    def _race(self) -> None:
        order = order_of(self.struck.case, self.place, None, if_exists="replace")
        with client(order) as running:
            go(running)
            self.outcomes.append(ended(running))

    def over(self) -> None:
        """Wait for what goes on beside the run."""
        if self._other is not None:
            self._other.join()

    def findings(self, outcome: Outcome, old: bool) -> list[str]:
        """What this way, and no other, must have come to."""
        if self.spent > SECONDS_TOLD:
            return [f"it ended {self.spent:.1f} s after the signal"]
        if self.way == "idle reader" and (outcome.code != "output_busy" or not old):
            return [f"{outcome.code} where output_busy was due, the old release stands: {old}"]
        if self.way == "refused" and (outcome.code != "too_few_records" or not old):
            return [f"{outcome.code} where too_few_records was due, nothing is shown: {old}"]
        losers = [one for one in (outcome, *self.outcomes) if not one.ok]
        if self.way == "race" and any(one.exit_code != 4 for one in losers):
            return [f"the loser's exit code is {losers[0].exit_code}, not 4"]
        return []
