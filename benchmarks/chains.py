"""Chains: what twelve releases of the same persons tell together, with a chain and without.

Adult by generalization, Census and EIA by means, at 1 % and 5 % of persons leaving and joining a
month. All ways publish from the same tables; what is counted is counted on what was published. The
loss is that against what the source says now, not what it said on the day of admission.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

import dbanon
from benchmarks.adult import load
from benchmarks.churn import Attacker, Churn, Seen, months
from benchmarks.markdown import NotMeasuredError, table
from dbanon.errors import ColumnLost, KeptColumnTells
from tests.reference.data import data_directory, load_casc

K = 5
MONTHS = 12
CHURNS = (Churn(0.01, 0.0), Churn(0.01, 0.005), Churn(0.05, 0.0), Churn(0.05, 0.03))
# The ways to publish, and the rules of those that are chains.
WAYS: Mapping[str, Mapping[str, Any] | None] = {
    "independent": None,
    "chain": {},
    "all let in": {"max_wait": 0},
}
# The loss of released rows, beside what the source says now of their persons.
Loss = Callable[[pd.DataFrame, pd.DataFrame, pd.DataFrame], float]


@dataclass(frozen=True)
class Data:
    """A table to publish every month.

    Parameters
    ----------
    pool : everybody who is ever in; all columns but ``kept`` are quasi-identifiers.
    kept : the sensitive column.
    given : what is asked for beside, such as the method.
    loss : of (released, now, all that is in the source).
    """

    name: str
    pool: pd.DataFrame
    kept: str
    given: Mapping[str, Any]
    loss: Loss

    @property
    def quasi_identifiers(self) -> list[str]:
        return [name for name in self.pool.columns if name != self.kept]


@dataclass
class Course:
    """What one way of publishing made of twelve months."""

    seen: Seen
    losses: list[float] = field(default_factory=list)
    left: float = 0.0
    missing: float = 0.0
    held: float | None = None


def run(quick: bool = False) -> str:
    """Markdown of the attack and of the price, on Census, EIA and Adult."""
    attack: list[list[object]] = []
    price: list[list[object]] = []
    for data in (casc("census"), casc("eia"), adult(quick)):
        for told, lost in rows_of(data, 4 if quick else MONTHS):
            attack.append(told)
            price.append(lost)
    return page(attack, price, quick)


def rows_of(data: Data, count: int) -> Iterator[tuple[list[object], list[object]]]:
    """The rows of both tables, of each churn and way."""
    for churn in CHURNS:
        for way, course in measured(data, churn, count).items():
            name = f"{data.name}, {churn.leave:.0%} / {churn.change:.1%}"
            seen = course.seen
            yield (
                [name, way, *map(percent, seen.below.values()), percent(seen.alone),
                 percent(seen.differences), *map(percent, seen.read_off.values())],
                [name, way, f"{course.losses[0]:.4f}", f"{course.losses[-1]:.4f}",
                 "" if course.held is None else percent(course.held),
                 percent(course.left), percent(course.missing)],
            )  # fmt: skip


def page(attack: list[list[object]], price: list[list[object]], quick: bool) -> str:
    """Both tables, with what they are of."""
    last, rows = (4, 2_000) if quick else (MONTHS, 100_000)
    return "\n".join(
        [
            f"# Chains: {last} releases of the same persons, k = {K}\n",
            "Data, persons who leave and join / whose values change a month. Below k: persons"
            " whose joint history fewer than k share, by what was published.\n",
            table(
                ["data", "way", *(f"below k after {n}" for n in after(last)), "alone at the end",
                 "in a difference below k", "read off after 1", f"after {last}"],
                attack,
            ),
            "Loss: against what the source says at the time (Census, EIA: SSE/SST; Adult: mean"
            " NCP, 1 where a label does not hold the value). All let in: a chain with max_wait 0."
            " Held: released rows of cells that are held."
            " Left: released rows of persons who are no more in the source. Missing: persons of"
            " the source who are not released. All of the last release.\n",
            table(["data", "way", "loss of the first", "of the last", "held", "left", "missing"],
                  price),
            f"\nOne row of {rows:,} replaced (4 columns drawn at random, MDAV): of the others,"
            f" {', '.join(percent(one_row(rows, seed)) for seed in range(3))} share both classes"
            f" with fewer than {K - 1} others, in three tables.\n",
        ]
    )  # fmt: skip


def one_row(count: int, seed: int) -> float:
    """Replace one row of a table and find classes again: how many others share both with few."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(count, 4))
    before = dbanon.partition(points, K, method="mdav").labels[1:]
    points[0] = rng.normal(size=4)
    after = dbanon.partition(points, K, method="mdav").labels[1:]
    pairs = before.astype(np.int64) * count + after
    _, which, sizes = np.unique(pairs, return_inverse=True, return_counts=True)
    return float((sizes[which] < K).mean())


def percent(share: float) -> str:
    return f"{100 * share:.3g} %" if share else "0"


def after(last: int) -> list[int]:
    """After how many releases the histories are counted."""
    return [2, 3, last]


def casc(name: str) -> Data:
    """Census or EIA of CASC, columns of numbers, and a kept column of ten values drawn by lot."""
    folder = data_directory()
    if folder is None:
        raise NotMeasuredError
    found = load_casc(name, folder)
    pool = pd.DataFrame(found.values, columns=[f"q{i}" for i in range(len(found.names))])
    pool["finding"] = np.random.default_rng(1).integers(0, 10, len(pool))
    title = {"census": "Census", "eia": "EIA"}[name]
    return Data(f"{title}, MDAV", pool, "finding", {"method": "mdav"}, squares)


def adult(quick: bool) -> Data:
    """Adult with eight quasi-identifiers; the occupation is kept."""
    folder = data_directory()
    if folder is None:
        raise NotMeasuredError
    known = load()
    pool = pd.read_csv(folder / "adult" / "adult.csv", sep=";", nrows=4000 if quick else None)
    given = {"method": "gaa_cp", "hierarchies": known.files}

    def ncp(released: pd.DataFrame, now: pd.DataFrame, everyone: pd.DataFrame) -> float:
        return float(
            np.mean(
                [
                    ranges(released[name], now[name], everyone[name])
                    if name not in known.files
                    else labels(released[name], now[name], known.paths[place] or {})
                    for place, name in enumerate(known.frame.columns)
                ]
            )
        )

    return Data("Adult, GAA-CP", pool, "occupation", given, ncp)


def squares(released: pd.DataFrame, now: pd.DataFrame, everyone: pd.DataFrame) -> float:
    """SSE/SST of standardized columns."""
    spread = everyone.std(ddof=0)
    apart = (((released - now) / spread) ** 2).mean()
    return float(apart.mean())


def labels(released: pd.Series, now: pd.Series, paths: Mapping[str, Sequence[str]]) -> float:
    """The mean share of leaves under the labels; 1 where the value is not under its label."""
    under: dict[str, int] = {}
    for path in paths.values():
        for label in dict.fromkeys(path):
            under[label] = under.get(label, 0) + 1
    pairs = pd.DataFrame({"label": released, "value": now}).value_counts()
    lost = [
        (1.0 if label not in paths[value] else (under[label] - 1) / (len(paths) - 1)) * count
        for (label, value), count in pairs.items()
    ]
    return sum(lost) / len(now)


def ranges(released: pd.Series, now: pd.Series, everyone: pd.Series) -> float:
    """The mean width of the ranges, of the column's; 1 where the value is outside."""
    whole = everyone.max() - everyone.min()
    lost = 0.0
    for (text, value), count in pd.DataFrame({"r": released, "v": now}).value_counts().items():
        low, high, open_ = _ends(str(text), everyone)
        inside = low <= value < high if open_ else low <= value <= high
        lost += count * (min((high - low) / whole, 1.0) if inside else 1.0)
    return lost / len(now)


def _ends(text: str, everyone: pd.Series) -> tuple[float, float, bool]:
    """Both ends of a released range, and whether the upper one is outside of it."""
    if text == "*":
        return everyone.min(), everyone.max(), False
    if text[0] not in "[(":
        return float(text), float(text), False
    low, high = text[1:-1].split(",")
    return float(low), float(high), text[-1] == ")"


def measured(data: Data, churn: Churn, count: int, seed: int = 1) -> dict[str, Course]:
    """The course of each way over the same months."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # A copy of the person's number is kept on purpose: it is what the attacker knows.
        warnings.simplefilter("ignore", KeptColumnTells)
        warnings.simplefilter("ignore", ColumnLost)
        return _courses(data, churn, count, seed, Path(folder))


def _courses(data: Data, churn: Churn, count: int, seed: int, folder: Path) -> dict[str, Course]:
    tables = list(months(data.pool, data.kept, churn, count, seed))
    for now in tables:
        now.insert(1, "who", now["person"])
    return {
        way: _course(data, tables, rules, folder / f"{number}.duckdb")
        for number, (way, rules) in enumerate(WAYS.items())
    }


def _course(
    data: Data, tables: Sequence[pd.DataFrame], rules: Mapping[str, Any] | None, path: Path
) -> Course:
    """The months, published in one way."""
    url, key, more = f"duckdb:///{path}", path.with_suffix(".key"), {}
    for month, now in enumerate(tables, 1):
        with duckdb.connect(str(path)) as connection:
            connection.register("month", now)
            if month == 1:
                connection.execute("CREATE TABLE people AS FROM month WHERE false")
            connection.execute("DELETE FROM people; INSERT INTO people FROM month")
        if rules is not None and month == 1:
            dbanon.create_chain(
                url, "people", table="people", entity="person", changes="show", key_out=key, **rules
            )
            more = {"entity": "person", "chain": dbanon.Chain("people", key=f"file:{key}")}
        dbanon.anonymize(
            url, table="people", output=f"release.r{month}", k=K, keep=["who", data.kept],
            quasi_identifiers=data.quasi_identifiers, **data.given, **more,
        )  # fmt: skip
    releases = [f"release.r{month}" for month in range(1, len(tables) + 1)]
    attacker = Attacker(str(path), data.quasi_identifiers, data.kept, "who", K)
    course = Course(attacker.seen(releases, after(len(tables))))
    for relation, now in zip(releases, tables, strict=True):
        _price(course, data, path, relation, now)
    if rules is not None:
        course.held = _held(path)
    return course


def _price(course: Course, data: Data, path: Path, relation: str, now: pd.DataFrame) -> None:
    """Add what one release lost."""
    with duckdb.connect(str(path)) as connection:
        released = connection.execute(f"FROM {relation}").df().set_index("who")
    truth = now.set_index("who")
    there = released.index.intersection(truth.index)
    names = data.quasi_identifiers
    course.losses.append(
        data.loss(released.loc[there, names], truth.loc[there, names], truth[names])
    )
    course.left = 1 - len(there) / len(released)
    course.missing = 1 - len(there) / len(truth)


def _held(path: Path) -> float:
    """The share of members on display whose cell is held, by the chain's own state."""
    with duckdb.connect(str(path)) as connection:
        [(held,)] = connection.execute(
            "SELECT count(*) FILTER (state = 'held') / count(*) FROM dbanon.chain_member"
            " JOIN dbanon.chain_cell USING (chain_id, cell)"
            " WHERE left_at_release IS NULL AND state IN ('live', 'held')"
        ).fetchall()
    return held
