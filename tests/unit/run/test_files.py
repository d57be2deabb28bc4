"""How a failed run treats its files, depending on whether its commit is certain."""

from __future__ import annotations

from typing import Any

import pytest

from dbanon.errors import OutcomeUnknown, SourceChanged
from dbanon.job.export import Export
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.run import export
from dbanon.run.files import open_exporter

JOB = Job(
    table="people",
    output="released",
    quasi_identifiers=("age",),
    policy=Policy(k=3),
    exports=(Export(path="people.csv"),),
)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The actions on the files."""
    seen: list[str] = []

    class Files:
        is_committing = False

        def __init__(self, *_: Any) -> None: ...

        def __getattr__(self, name: str) -> Any:
            return lambda: seen.append(name)

    monkeypatch.setattr(export, "Exporter", Files)
    return seen


@pytest.mark.parametrize(
    ("error", "is_committing", "then"),
    [
        (SourceChanged("It did."), False, "undo"),
        (KeyboardInterrupt(), False, "undo"),
        # The database refused the commit: there is no release.
        (SourceChanged("It did."), True, "undo"),
        # It is unknown whether there is one: the files stay until the next run decides.
        (OutcomeUnknown("Nobody knows."), True, "leave_pending"),
        (KeyboardInterrupt(), True, "leave_pending"),
        (OutcomeUnknown("Nobody knows."), False, "undo"),
    ],
)
def test_files_stay_only_where_the_release_may_be_there(
    done: list[str], error: BaseException, is_committing: bool, then: str
) -> None:
    store: Any = None

    def fail() -> None:
        with open_exporter(JOB, store) as files:
            assert files is not None
            files.is_committing = is_committing
            raise error

    with pytest.raises(type(error)):
        fail()
    assert done == ["finish_earlier_runs", then]


def test_files_get_their_places_at_the_end(done: list[str]) -> None:
    store: Any = None
    with open_exporter(JOB, store) as files:
        assert files is not None
    assert done == ["finish_earlier_runs", "finish"]
