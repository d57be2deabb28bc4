"""Chains: successive releases of the same persons that stay private when combined.

Terms that the modules of this package share:

- A *member* is a person whom a release has admitted to a *cell*, a class that later releases keep.
  The members of a cell share released values, which never change.
- A *tag* is the keyed hash of a person's identifier, under which the chain stores the person.
- A *newcomer* is a person in the source who is not a member yet.
- A person's *history* is the person's cell, and the release at which the person left it, if any:
  all that the releases show of the person's membership.
- *Retained columns* are released unchanged, with a value for each row.
- *Displayed* rows, persons and cells are those in the current release.
- A *held* (or frozen) cell keeps its displayed rows, although the rows in the source have changed
  or members have left. A *withdrawn* cell is never displayed again.
- A *sealed* cell has a member who was absent and has returned (see ``returns``). No group of
  members, however large, may leave it while others stay on display.
- A cell has *drifted* if some of its rows have changed, but fewer than k.
- A *row key* identifies a row of the source; a *locator* is the SQL that reads row keys.
"""

from __future__ import annotations

from dbanon.data.extension import Command, Extension

EXTENSION = Extension(
    "chains",
    commands={
        "chain": Command(
            "dbanon.extensions.chains.commands:chain",
            "Releases of the same persons that stay private together.",
        )
    },
    runners={"chain": "dbanon.extensions.chains.runner:RUNNER"},
)
