"""A valid job file, and single changes that make it invalid. SECRET is in every value."""

from __future__ import annotations

from dataclasses import dataclass

SECRET = "hush-hush-7311"

RIGHT = """\
version: 1
source:
  url: "duckdb:///people.duckdb"
target:
  schema: release
defaults:
  k: 3
  method: mdav
jobs:
  - name: people-monthly
    table: people
    where: "age > 1"
    entity: name
    columns:
      id: {role: drop}
      name: {role: identifier}
      age: {role: quasi_identifier, weight: 2}
      height:
        role: quasi_identifier
      income: {role: drop}
      born: {role: drop}
      seen: {role: drop}
      site: {role: keep, reason: a public list}
    output:
      view: people
      keep_last: 2
"""


@dataclass(frozen=True)
class Wrong:
    """A change of the right file, and what has to be said of it.

    Parameters
    ----------
    old, new : the text that is replaced, and by what.
    path : of the problem.
    said : words of it.
    line : of the problem; 0 for the first line that changed.
    """

    name: str
    old: str
    new: str
    path: str
    message: str
    line: int = 0

    @property
    def text(self) -> str:
        """The contents of the invalid file."""
        assert self.old in RIGHT, self.name
        return RIGHT.replace(self.old, self.new, 1)

    @property
    def expected_line(self) -> int:
        """The line of the problem."""
        if self.line:
            return self.line
        pairs = zip(self.text.splitlines(), [*RIGHT.splitlines(), *[""] * 99], strict=False)
        return next(number for number, (new, old) in enumerate(pairs, 1) if new != old)


JOB = "jobs.0"
HEIGHT = "      height:\n        role: quasi_identifier\n"
AGE = "age: {role: quasi_identifier, weight: 2}"
SITE = "site: {role: keep, reason: a public list}"


def with_age(inner: str) -> str:
    return f"age: {{role: quasi_identifier, {inner}}}"


def with_sensitive(inner: str) -> str:
    return f"site: {{role: sensitive, models: [{inner}]}}"
