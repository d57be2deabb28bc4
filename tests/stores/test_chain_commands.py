"""A year of a chain by commands and by a job file, on every database, and what they never show."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dbanon.doors.cli.main import main
from tests.postgres_server import Server
from tests.stores.chain_cases import ILLNESSES, Months, load
from tests.stores.databases import Database, PostgresqlDatabase
from tests.stores.job_lines import job, write

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

# Person identifiers that cannot occur by chance.
FIRST_ID = 7_310_000
RELEASED = (
    "--table",
    "people",
    "--entity",
    "id",
    "--quasi-identifiers",
    "age,income",
    "--sensitive",
    "ill",
    "--k",
    "3",
    "--output",
    "release.people",
    "--if-exists",
    "replace",
)


class Clerk:
    """An operator of the commands, with all output so far."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database, self.key, self.said = database, folder / "patients.key", ""

    def call(self, *arguments: str, stdin: str | None = None) -> Result:
        words = [*arguments, "--print-sql", "--format", "json", "--log-format", "json"]
        done = CliRunner().invoke(main, words, input=stdin)
        self.said += done.stdout + done.stderr
        return done

    def create(self, *more: str) -> Result:
        return self.call(
            "chain",
            "create",
            self.database.url,
            "patients",
            "--table",
            "people",
            "--entity",
            "id",
            "--changes",
            "show",
            "--key-out",
            str(self.key),
            *more,
        )

    def next(self, *more: str) -> Result:
        """Create the chain that follows."""
        return self.call(
            "chain",
            "create",
            self.database.url,
            "next",
            "--table",
            "people",
            "--entity",
            "id",
            "--changes",
            "show",
            *more,
        )

    def chain(self, command: str, *more: str, stdin: str | None = None) -> Result:
        return self.call("chain", command, self.database.url, "patients", *more, stdin=stdin)

    def with_key(self, where: str | None = None) -> tuple[str, str]:
        return "--chain-key", where or f"file:{self.key}"

    def plan(self, *more: str) -> Result:
        return self.call(
            "plan", self.database.url, *RELEASED, "--chain", "patients", *self.with_key(), *more
        )

    def release(self, *more: str, where: str | None = None, chain: str = "patients") -> Result:
        return self.call(
            "anonymize",
            self.database.url,
            *RELEASED,
            "--chain",
            chain,
            *self.with_key(where),
            *more,
        )

    def state(self) -> Any:
        """Lists the chains and their releases; failed runs are recorded with them."""
        tables = ("chain", "chain_cell", "chain_member", "chain_release", "release")
        return [sorted(map(str, self.database.ledger_rows(table))) for table in tables]

    @contextmanager
    def logged_by(self, server: Server) -> Iterator[None]:
        """Take what a server logs of every statement for said, too."""
        with server.capture_log(statements=True) as log:
            yield
        self.said += log.text

    def require_nothing_said(self, persons: Any) -> None:
        """No key, tag or person identifier in any output or in anything that job runners read."""
        tags = [
            bytes(tag).hex()
            for (tag,) in self.database.rows(
                f"SELECT tag FROM {self.database.ledger('chain_member')}"
            )
        ]
        assert tags
        log_text = "".join(
            str(self.database.ledger_rows(table)) for table in ("release", "release_column", "run")
        )
        key = self.key.read_text().strip()
        for text in (self.said, log_text):
            lower = text.lower()
            assert not [secret for secret in (key, *tags) if secret in lower]
            assert repr(bytes.fromhex(key))[2:-1] not in text
            assert not {str(person) for person in persons} & set(re.findall(r"\d{7}", text))
            assert not ({*ILLNESSES} - {"none"}) & {*re.findall(r"\w+", lower)}


@pytest.fixture
def clerk(database: Database, tmp_path: Path) -> Clerk:
    return Clerk(database, tmp_path)


def world() -> Months:
    months = Months(n=0, join=6, leave=0.05)
    months.next = FIRST_ID
    months._come(40)
    return months


def result_of(done: Result, code: int = 0) -> Any:
    """The output of a command that ended with the expected exit code."""
    assert done.exit_code == code, done.output
    return json.loads(done.stdout) if code == 0 else None


def test_more_exposed_than_is_allowed(clerk: Clerk) -> None:
    months = world()
    load(clerk.database, months.now)
    assert clerk.create("--mode", "measure").exit_code == 0
    assert clerk.release("--max-exposed", "0").exit_code == 0
    before = clerk.state()
    months.pass_on()
    load(clerk.database, months.now)
    refused = clerk.release("--max-exposed", "0")
    assert (refused.exit_code, "chain_exposed" in refused.output) == (3, True)
    assert clerk.state() == before
    assert result_of(clerk.release())["arguments"]["chain"]["exposed"] > 0
    assert result_of(clerk.chain("measure", *clerk.with_key()))["exposed"] > 0
    clerk.require_nothing_said({*months.now, *months.out})


def test_a_year_by_commands(clerk: Clerk) -> None:
    months = world()
    load(clerk.database, months.now)
    assert result_of(clerk.create())["state"] == "new"
    for number in (1, 2, 3):
        load(clerk.database, months.now)
        report = result_of(clerk.release("--accept-turnover"))
        assert report["arguments"]["chain"]["sequence"] == number
        months.pass_on()
    [listed] = result_of(clerk.call("chain", "list", clerk.database.url))
    assert (listed["name"], listed["sequence"], listed["k"]) == ("patients", 3, 3)
    assert len(result_of(clerk.chain("show"))["releases"]) == 3
    assert result_of(clerk.chain("measure", *clerk.with_key()))["exposed"] == 0
    entity_line = f"{FIRST_ID + 1}\n"
    done = clerk.chain("withdraw", *clerk.with_key(), "--entity-from-stdin", stdin=entity_line)
    assert result_of(done) == {"classes": 1}
    assert result_of(clerk.chain("close"))["state"] == "closed"
    assert clerk.release().exit_code == 2
    clerk.require_nothing_said({*months.now, *months.out})


@pytest.mark.postgresql
def test_what_models_hold_back_and_the_next_chain_say(
    postgresql: PostgresqlDatabase, tmp_path: Path, pg_server: Server
) -> None:
    """Plans, newcomers whom models keep out, cells that they hold, and what two chains expose."""
    clerk, server = Clerk(postgresql, tmp_path), pg_server
    model_words = ("--model", "ill=distinct_l:2", "--accept-turnover")
    months = world()
    load(clerk.database, months.now)
    with clerk.logged_by(server):
        assert clerk.create("--max-wait", "0").exit_code == 0
        assert clerk.release(*model_words).exit_code == 0
    months.pass_on()
    # With a single value for everyone, both cells and newcomers would violate the model.
    load(clerk.database, {person: (*v[:3], "flu", v[4]) for person, v in months.now.items()})
    with clerk.logged_by(server):
        assert result_of(clerk.plan(*model_words))["chain"]["coming"]["came"] == 6
        report = result_of(clerk.release(*model_words))
        assert report["arguments"]["chain"]["refused"] == 6
        assert result_of(clerk.chain("show"))["releases"][-1]["unfit"] > 0
        assert result_of(clerk.chain("close"))["state"] == "closed"
        assert clerk.next("--new-chain-from", "patients", *clerk.with_key()).exit_code == 0
        assert clerk.release("--max-exposed", "0", chain="next").exit_code == 3
        assert result_of(clerk.release(chain="next"))["arguments"]["chain"]["pair_exposed"] > 0
    clerk.require_nothing_said({*months.now, *months.out})


def test_wrong_inputs(clerk: Clerk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    months = world()
    load(clerk.database, months.now)
    assert clerk.create().exit_code == 0
    assert clerk.release().exit_code == 0
    monkeypatch.setenv("ANOTHER", "0" * 64)
    before = clerk.state()
    codes = {
        "another key": clerk.release(where="env:ANOTHER"),
        "no such variable": clerk.release(where="env:NO_SUCH_KEY"),
        "a lost key": clerk.release(where=f"file:{tmp_path}/lost.key"),
        "a key and not its place": clerk.release(where="0" * 64),
        "unknown": clerk.release(chain="nobody"),
        "measure with another": clerk.chain("measure", *clerk.with_key("env:ANOTHER")),
        "withdraw with another": clerk.chain(
            "withdraw", *clerk.with_key("env:ANOTHER"), "--entity-from-stdin", stdin="1\n"
        ),
        "withdraw without stdin": clerk.chain("withdraw", *clerk.with_key()),
        "made twice": clerk.create(),
        "not named": clerk.call("anonymize", clerk.database.url, *RELEASED, *clerk.with_key()),
    }
    clerk.key.chmod(0o644)
    codes["read by others"] = clerk.release()
    clerk.key.chmod(0o600)
    ended = {name: done.exit_code for name, done in codes.items()}
    assert ended == dict.fromkeys(codes, 2)
    assert clerk.state() == before
    clerk.require_nothing_said(months.now)


def test_a_job_of_a_chain(clerk: Clerk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    months = world()
    load(clerk.database, months.now)
    assert clerk.create().exit_code == 0
    monkeypatch.setenv("PEOPLE", clerk.database.url)
    roles = {
        "id": "{role: identifier}",
        "age": "{role: quasi_identifier}",
        "ill": "{role: sensitive}",
        "income": "{role: quasi_identifier}",
        "site": "{role: drop}",
        "cost": "{role: drop}",
    }
    of = '{name: patients, key: "file:patients.key", changes: show, accept_turnover: true}'
    file = write(tmp_path, job(roles=roles, entity="id", chain=of))
    for number in (1, 2, 3):
        load(clerk.database, months.now)
        done = clerk.call("run", str(file))
        assert done.exit_code == 0, done.output
        assert f"release {number}" in done.stdout
        months.pass_on()
    before = clerk.state()
    refused = clerk.call("run", str(file), "--skip-unchanged")
    assert refused.exit_code == 2
    assert "never skipped" in refused.output
    assert clerk.state() == before
    clerk.require_nothing_said({*months.now, *months.out})
