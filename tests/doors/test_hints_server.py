"""Hints of PostgreSQL, its SQL functions, rules, budgets and refreshes are followed literally."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbanon.doors import install
from tests.backend_package import link_opendp
from tests.doors.hint_list import text_of
from tests.doors.hints_server import TRIALS
from tests.doors.server_site import TABLE, Site, Trial
from tests.doors.test_hints_followed import pattern
from tests.postgres.warm import close_warm, warm
from tests.postgres_server import NoServerError, Server
from tests.prerequisites import import_or_skip, skip_or_fail

pytestmark = pytest.mark.postgresql

import_or_skip("opendp")


@pytest.fixture(scope="module")
def site(
    sql_server: Server, backend_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """One database for all trials, whose tables have names of their own."""
    opendp = link_opendp(backend_path.parent / "opendp-hints")
    with sql_server.database() as url, sql_server.roles_dropped(url), warm(url):
        install.install(url, python_paths=[str(backend_path), str(opendp)])
        urls = {"postgres": url}
        for name in ("anna", "bob", "nell"):
            runner = "" if name == "nell" else "IN ROLE dbanon_runner"
            urls[name] = sql_server.create_role(name, url=url, options=runner)
        site = Site(sql_server, urls, backend_path, opendp, tmp_path_factory.mktemp("hints"))
        for name in ("key", "other"):
            site.write(name, f"{len(name):064x}")
            (site.path / name).chmod(0o600)
        for schema in ("app", "release"):
            site.take(f"CREATE SCHEMA {schema}")
            site.take(f"GRANT USAGE ON SCHEMA {schema} TO anna, bob, nell")
        site.take("GRANT CREATE ON SCHEMA release TO anna, bob, nell")
        with site.closing:
            yield site
        for name in urls:
            site.close(name)
        close_warm()


def trials() -> list[Any]:
    """All trials with their numbers; of those of one hint, the later ones in campaigns."""
    texts = [trial.hint for trial in TRIALS]
    return [
        pytest.param(
            number,
            trial,
            id=trial.hint[:40],
            marks=pytest.mark.campaign if trial.hint in texts[:number] else (),
        )
        for number, trial in enumerate(TRIALS)
    ]


@pytest.mark.parametrize(("number", "trial"), trials())
def test_a_hint_of_the_server_can_be_followed(
    number: int, trial: Trial, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = text_of(trial.hint)
    site.table, site.patch = f"t{number}", monkeypatch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in (*TABLE, *trial.before):
            site.take(step)
        try:
            site.hint = site.hint_of(trial.wrong)
            assert pattern(text).search(site.hint), (text, site.hint)
            for step in trial.right:
                site.take(step)
        except NoServerError as error:
            skip_or_fail(str(error))
        finally:
            for step in trial.after:
                site.take(step)
