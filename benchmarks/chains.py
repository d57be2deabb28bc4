"""Chains: what twelve releases of the same persons reveal together, with and without a chain.

Adult by generalization, Census and EIA by means, with 1 % and 5 % of persons leaving and joining a
month. All modes publish the same tables, and everything is counted on the published releases. The
loss compares with the current source, not with the source at the time of admission.
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
from benchmarks.churn import Attacker, AttackResult, Churn, months
from benchmarks.markdown import NotMeasuredError, table
from dbanon.errors import ColumnLost, KeptColumnTells
from tests.reference.data import data_directory, load_casc

K = 5
MONTHS = 12
CHURNS = (Churn(0.01, 0.0), Churn(0.01, 0.005), Churn(0.05, 0.0), Churn(0.05, 0.03))
# The modes of publishing; rules for those that use a chain.
WAYS: Mapping[str, Mapping[str, Any] | None] = {
    "independent": None,
    "chain": {},
    "all let in": {"max_wait": 0},
}
# The loss of released rows relative to the current values of their persons.
Loss = Callable[[pd.DataFrame, pd.DataFrame, pd.DataFrame], float]


@dataclass(frozen=True)
class Data:
    """A table to publish every month.

    Parameters
    ----------
    pool : everyone who is ever in the table; all columns but ``sensitive`` are quasi-identifiers.
    sensitive : the sensitive column.
    options : further options, such as the method.
    loss : computed from (released, current, whole source).
    """

    name: str
    pool: pd.DataFrame
    sensitive: str
    options: Mapping[str, Any]
    loss: Loss

    @property
    def quasi_identifiers(self) -> list[str]:
        return [name for name in self.pool.columns if name != self.sensitive]


@dataclass
class Course:
    """The results of publishing twelve months in one mode."""

    seen: AttackResult
    losses: list[float] = field(default_factory=list)
    left_share: float = 0.0
    missing_share: float = 0.0
    held_share: float | None = None


def run(quick: bool = False) -> str:
    """Measure attack and price on Census, EIA and Adult; return Markdown."""
    attack: list[list[object]] = []
    price: list[list[object]] = []
    for data in (casc("census"), casc("eia"), adult(quick)):
        for attack_row, price_row in rows_of(data, 4 if quick else MONTHS):
            attack.append(attack_row)
            price.append(price_row)
    return page(attack, price, quick)


def rows_of(data: Data, count: int) -> Iterator[tuple[list[object], list[object]]]:
    """Yield the rows of both tables for each churn and mode."""
    for churn in CHURNS:
        for mode, course in measured(data, churn, count).items():
            name = f"{data.name}, {churn.leave:.0%} / {churn.change:.1%}"
            seen = course.seen
            yield (
                [
                    name,
                    mode,
                    *map(percent, seen.below.values()),
                    percent(seen.unique),
                    percent(seen.differences),
                    *map(percent, seen.read_off.values()),
                ],
                [
                    name,
                    mode,
                    f"{course.losses[0]:.4f}",
                    f"{course.losses[-1]:.4f}",
                    "" if course.held_share is None else percent(course.held_share),
                    percent(course.left_share),
                    percent(course.missing_share),
                ],
            )


def page(attack: list[list[object]], price: list[list[object]], quick: bool) -> str:
    """Format both tables with their explanations."""
    n_releases, rows = (4, 2_000) if quick else (MONTHS, 100_000)
    return "\n".join(
        [
            f"# Chains: {n_releases} releases of the same persons, k = {K}\n",
            "Data, persons who leave and join / whose values change a month. Below k: persons"
            " whose joint history fewer than k share, by what was published.\n",
            table(
                [
                    "data",
                    "way",
                    *(f"below k after {n}" for n in after(n_releases)),
                    "alone at the end",
                    "in a difference below k",
                    "read off after 1",
                    f"after {n_releases}",
                ],
                attack,
            ),
            "Loss: against what the source says at the time (Census, EIA: SSE/SST; Adult: mean"
            " NCP, 1 where a label does not hold the value). All let in: a chain with max_wait 0."
            " Held: released rows of cells that are held."
            " Left: released rows of persons who are no more in the source. Missing: persons of"
            " the source who are not released. All of the last release.\n",
            table(
                ["data", "way", "loss of the first", "of the last", "held", "left", "missing"],
                price,
            ),
            f"\nOne row of {rows:,} replaced (4 columns drawn at random, MDAV): of the others,"
            f" {', '.join(percent(one_row(rows, seed)) for seed in range(3))} share both classes"
            f" with fewer than {K - 1} others, in three tables.\n",
        ]
    )


def one_row(count: int, seed: int) -> float:
    """Replace one row and cluster again: the share of others whose class pair is below k."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(count, 4))
    before = dbanon.partition(points, K, method="mdav").labels[1:]
    points[0] = rng.normal(size=4)
    after = dbanon.partition(points, K, method="mdav").labels[1:]
    pairs = before.astype(np.int64) * count + after
    _, pair_index, sizes = np.unique(pairs, return_inverse=True, return_counts=True)
    return float((sizes[pair_index] < K).mean())


def percent(share: float) -> str:
    return f"{100 * share:.3g} %" if share else "0"


def after(last: int) -> list[int]:
    """The numbers of releases after which histories are counted."""
    return [2, 3, last]


def casc(name: str) -> Data:
    """Numeric columns of Census or EIA from CASC, and a random retained column of ten values."""
    folder = data_directory()
    if folder is None:
        raise NotMeasuredError
    casc_table = load_casc(name, folder)
    pool = pd.DataFrame(casc_table.values, columns=[f"q{i}" for i in range(len(casc_table.names))])
    pool["finding"] = np.random.default_rng(1).integers(0, 10, len(pool))
    title = {"census": "Census", "eia": "EIA"}[name]
    return Data(f"{title}, MDAV", pool, "finding", {"method": "mdav"}, squares)


def adult(quick: bool) -> Data:
    """Adult with eight quasi-identifiers; the occupation is retained."""
    folder = data_directory()
    if folder is None:
        raise NotMeasuredError
    reference = load()
    pool = pd.read_csv(folder / "adult" / "adult.csv", sep=";", nrows=4000 if quick else None)
    options = {"method": "gaa_cp", "hierarchies": reference.files}

    def ncp(released: pd.DataFrame, now: pd.DataFrame, everyone: pd.DataFrame) -> float:
        return float(
            np.mean(
                [
                    ranges(released[name], now[name], everyone[name])
                    if name not in reference.files
                    else labels(released[name], now[name], reference.paths[index] or {})
                    for index, name in enumerate(reference.frame.columns)
                ]
            )
        )

    return Data("Adult, GAA-CP", pool, "occupation", options, ncp)


def squares(released: pd.DataFrame, now: pd.DataFrame, everyone: pd.DataFrame) -> float:
    """SSE/SST of standardized columns."""
    spread = everyone.std(ddof=0)
    squared_errors = (((released - now) / spread) ** 2).mean()
    return float(squared_errors.mean())


def labels(released: pd.Series, now: pd.Series, paths: Mapping[str, Sequence[str]]) -> float:
    """The mean share of leaves under the labels; 1 if a label does not cover its value."""
    leaf_counts: dict[str, int] = {}
    for path in paths.values():
        for label in dict.fromkeys(path):
            leaf_counts[label] = leaf_counts.get(label, 0) + 1
    pairs = pd.DataFrame({"label": released, "value": now}).value_counts()
    losses = [
        (1.0 if label not in paths[value] else (leaf_counts[label] - 1) / (len(paths) - 1)) * count
        for (label, value), count in pairs.items()
    ]
    return sum(losses) / len(now)


def ranges(released: pd.Series, now: pd.Series, everyone: pd.Series) -> float:
    """The mean relative width of the ranges; 1 if a range does not contain its value."""
    column_range = everyone.max() - everyone.min()
    total_loss = 0.0
    for (text, value), count in pd.DataFrame({"r": released, "v": now}).value_counts().items():
        low, high, open_ = _ends(str(text), everyone)
        inside = low <= value < high if open_ else low <= value <= high
        total_loss += count * (min((high - low) / column_range, 1.0) if inside else 1.0)
    return total_loss / len(now)


def _ends(text: str, everyone: pd.Series) -> tuple[float, float, bool]:
    """The bounds of a released range, and whether the upper one is exclusive."""
    if text == "*":
        return everyone.min(), everyone.max(), False
    if text[0] not in "[(":
        return float(text), float(text), False
    low, high = text[1:-1].split(",")
    return float(low), float(high), text[-1] == ")"


def measured(data: Data, churn: Churn, count: int, seed: int = 1) -> dict[str, Course]:
    """Publish the same months in each mode."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # A copy of the person identifier is retained on purpose: the attacker knows it.
        warnings.simplefilter("ignore", KeptColumnTells)
        warnings.simplefilter("ignore", ColumnLost)
        return _courses(data, churn, count, seed, Path(folder))


def _courses(data: Data, churn: Churn, count: int, seed: int, folder: Path) -> dict[str, Course]:
    tables = list(months(data.pool, data.sensitive, churn, count, seed))
    for now in tables:
        now.insert(1, "who", now["person"])
    return {
        mode: _course(data, tables, rules, folder / f"{number}.duckdb")
        for number, (mode, rules) in enumerate(WAYS.items())
    }


def _course(
    data: Data, tables: Sequence[pd.DataFrame], rules: Mapping[str, Any] | None, path: Path
) -> Course:
    """Publish the months in one mode."""
    url, key, chain_options = f"duckdb:///{path}", path.with_suffix(".key"), {}
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
            chain_options = {"entity": "person", "chain": dbanon.Chain("people", key=f"file:{key}")}
        dbanon.anonymize(
            url,
            table="people",
            output=f"release.r{month}",
            k=K,
            keep=["who", data.sensitive],
            quasi_identifiers=data.quasi_identifiers,
            **data.options,
            **chain_options,
        )
    releases = [f"release.r{month}" for month in range(1, len(tables) + 1)]
    attacker = Attacker(str(path), data.quasi_identifiers, data.sensitive, "who", K)
    course = Course(attacker.attack(releases, after(len(tables))))
    for relation, now in zip(releases, tables, strict=True):
        _price(course, data, path, relation, now)
    if rules is not None:
        course.held_share = _held_share(path)
    return course


def _price(course: Course, data: Data, path: Path, relation: str, now: pd.DataFrame) -> None:
    """Add the losses of one release."""
    with duckdb.connect(str(path)) as connection:
        released = connection.execute(f"FROM {relation}").df().set_index("who")
    truth = now.set_index("who")
    common = released.index.intersection(truth.index)
    names = data.quasi_identifiers
    course.losses.append(
        data.loss(released.loc[common, names], truth.loc[common, names], truth[names])
    )
    course.left_share = 1 - len(common) / len(released)
    course.missing_share = 1 - len(common) / len(truth)


def _held_share(path: Path) -> float:
    """The share of displayed members whose cell is held, from the chain's state."""
    with duckdb.connect(str(path)) as connection:
        [(share,)] = connection.execute(
            "SELECT count(*) FILTER (state = 'held') / count(*) FROM dbanon.chain_member"
            " JOIN dbanon.chain_cell USING (chain_id, cell)"
            " WHERE left_at_release IS NULL AND state IN ('live', 'held')"
        ).fetchall()
    return share
