"""What is found of a release beside what it guarantees: each names columns, and holds no value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TellingColumn:
    """A column that is released as it is, and tells rows apart or what a quasi-identifier was.

    Parameters
    ----------
    name : the column.
    determines : the quasi-identifier whose original values follow from it; None where its values
        are each shared by too few rows.
    share : the share of released rows, of those that have a value in it, that this is so of at
        least.
    """

    name: str
    determines: str | None
    share: float

    def describe(self, k: int) -> str:
        """What was found, in words."""
        share = "all" if self.share == 1 else f"at least {self.share:.0%} of the"
        rows = f"{share} released rows that have a value"
        if self.determines is None:
            return f'"{self.name}" is nearly unique: fewer than {k} share it, in {rows}'
        return f'"{self.name}" determines what "{self.determines}" was, in {rows}'


@dataclass(frozen=True)
class FewPersons:
    """A column of the source that looks like a number of persons, of which classes hold few.

    Parameters
    ----------
    name : the column.
    share : about the share of classes that hold fewer than k of its values, in hundredths and no
        less than one.
    """

    name: str
    share: float

    @classmethod
    def of(cls, name: str, classes: int, below: int) -> FewPersons:
        """What was found, of classes that were counted and of those of them that hold few."""
        return cls(name, max(round(below / classes, 2), 0.01))

    def describe(self, k: int) -> str:
        """What was found, in words."""
        return (
            f'"{self.name}" looks like a number of persons, and about {self.share:.0%} of the'
            f" classes hold fewer than {k} of its values: k counts rows, and a class may be one"
            " person's"
        )
