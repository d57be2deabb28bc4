"""The tables that synthetic rows are generated from and compared with.

Adult, MAGIC, Census and the survey of sdcMicro are reference data; a ledger and hospital stays are
generated. A tenth of the rows is held out to evaluate classifiers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dbanon
from tests.reference.data import load_casc
from tests.reference.synthesis import MAGIC_BOUNDS, census_bounds

HELD_OUT = 10
N_PAYMENTS = 20_000
N_STAYS = 10_000


@dataclass(frozen=True)
class Table:
    """Rows to imitate, and held-out rows.

    Parameters
    ----------
    rows : dates are days since 1970.
    bounds : public bounds by numeric column.
    target : the binary column that a classifier predicts.
    logarithms : the positive columns whose scale is publicly known to be logarithmic.
    cells : by column, the inner edges of the cells it is compared in; deciles if not given.
    """

    name: str
    rows: pd.DataFrame
    held_out: pd.DataFrame
    bounds: dict[str, tuple[float, float]]
    target: str
    integers: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    logarithms: tuple[str, ...] = ()
    cells: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def listed(self) -> dict[str, list[str]]:
        """The categorical columns with their public values: those of all rows."""
        all_rows = pd.concat([self.rows, self.held_out])
        return {c: sorted(all_rows[c].unique()) for c in all_rows if c not in self.bounds}

    @property
    def types(self) -> dict[str, str]:
        """The declared type of each column."""
        kinds = dict.fromkeys(self.bounds, "number") | dict.fromkeys(self.integers, "integer")
        kinds |= dict.fromkeys(self.dates, "date")
        return {c: kinds.get(c, "text") for c in self.rows}

    def domain(self) -> dict[str, dict[str, Any]]:
        """The same for packages that take lower, upper and categories."""
        numbers = {c: {"lower": low, "upper": high} for c, (low, high) in self.bounds.items()}
        for c in self.logarithms:
            numbers[c] = {at: float(np.log10(bound)) for at, bound in numbers[c].items()}
        return {c: numbers.get(c, {"categories": self.listed.get(c)}) for c in self.rows}


def synthesize_table(data: Table, options: dict[str, Any], epsilon: float) -> pd.DataFrame:
    """Return synthetic rows of dbanon, by a method and its options; dates are days since 1970."""
    rows, bounds = data.rows, dict[str, tuple[Any, Any]](data.bounds)
    for column in data.dates:
        rows = rows.assign(
            **{column: rows[column].to_numpy("datetime64[D]").astype("datetime64[s]")}
        )
        low, high = (np.datetime64(int(day), "D").item() for day in data.bounds[column])
        bounds[column] = (low, high)
    synthetic = dbanon.synthesize(
        rows,
        epsilon=epsilon,
        types=data.types,
        bounds=bounds,
        orders=data.listed,
        null_as=dict.fromkeys(data.listed, "other") | {c: low for c, (low, _) in bounds.items()},
        budget=dbanon.Budget(epsilon, delta=options.get("delta")),
        **({"scale": dict.fromkeys(data.logarithms, "log")} if data.logarithms else {}),
        **options,
    )
    frame = pd.DataFrame(dict(synthetic.columns))
    days = {c: frame[c].to_numpy("datetime64[D]").astype(np.int64) for c in data.dates}
    return frame.assign(**days)


def tables(directory: Path) -> list[Table]:
    """All three tables."""
    adult = pd.read_csv(directory / "adult" / "adult.csv", sep=";")
    magic = pd.read_csv(directory / "magic" / "magic04.csv")
    numbers = load_casc("census", directory)
    census = pd.DataFrame(numbers.values, columns=list(numbers.names))
    census_high = census_bounds(numbers.values)[1]
    # Whether a person earns more than the median is predicted from the other columns.
    median = census["PEARNVAL"].median()
    census["PEARNVAL"] = np.where(census["PEARNVAL"] > median, "more", "less")
    return [
        _table("Adult", adult, {"age": (17, 90)}, "salary-class", ("age",)),
        _table("MAGIC", magic, dict(zip(magic, map(tuple, MAGIC_BOUNDS), strict=False)), "class"),
        _table(
            "Census",
            census,
            dict(zip(numbers.names, map(tuple, census_high), strict=True)),
            "PEARNVAL",
        ),
    ]


def _table(
    name: str,
    frame: pd.DataFrame,
    bounds: dict[str, Any],
    target: str,
    integers: tuple[str, ...] = (),
    dates: tuple[str, ...] = (),
    logarithms: tuple[str, ...] = (),
) -> Table:
    order = np.random.default_rng(0).permutation(len(frame))
    cut = len(frame) // HELD_OUT
    numeric_bounds = {
        c: (float(low), float(high)) for c, (low, high) in bounds.items() if c != target
    }
    rows, held_out = frame.iloc[order[cut:]], frame.iloc[order[:cut]]
    return Table(
        name,
        rows.reset_index(drop=True),
        held_out.reset_index(drop=True),
        numeric_bounds,
        target,
        integers,
        dates,
        logarithms,
    )


def microdata(directory: Path) -> Table:
    """A survey of 4,580 persons, the example data of sdcMicro, with eight of its categories."""
    rows = pd.read_csv(directory / "sdcmicro" / "testdata_full.csv")
    categories = ["urbrur", "roof", "walls", "water", "electcon", "relat", "sex", "hhcivil"]
    for column in categories:
        rows[column] = rows[column].map("v{}".format)
    bounds = {"age": (0, 100), "expend": (0, 1e8), "income": (0, 1e8), "savings": (0, 1e7)}
    return _table("sdcMicro", rows[[*categories, *bounds]], bounds, "sex", ("age",))


def ledger() -> Table:
    """Generate payments, whose amounts spread over five decades."""
    rng = np.random.default_rng(580)
    account = rng.choice(3, N_PAYMENTS, p=[0.68, 0.22, 0.1])
    kind_shares = np.array(
        [
            [0.46, 0.14, 0.2, 0.12, 0.06, 0.02],
            [0.2, 0.05, 0.2, 0.45, 0.08, 0.02],
            [0.0, 0.05, 0.05, 0.8, 0.095, 0.005],
        ]
    )
    kind = _draw_by_row(rng, kind_shares[account])
    branch = rng.choice(12, N_PAYMENTS, p=_power_law(12, 1.1))
    day = _to_day("2025-01-01") + rng.integers(0, 365, N_PAYMENTS)
    # Payments of kind 5 are made in the last days of a month.
    month_end = (day.astype("datetime64[D]").astype("datetime64[M]") + 1).astype("datetime64[D]")
    day = np.where(kind == 5, month_end.astype(np.int64) - rng.integers(1, 4, N_PAYMENTS), day)
    middles = np.array([1.4, 1.9, 1.9, 2.5, 0.5, 3.4])[kind] + 0.6 * (account == 1)
    logarithm = middles + 0.05 * (branch < 3) + rng.normal(0, 0.6, N_PAYMENTS)
    amount = 10 ** logarithm.clip(0, 5)
    risk = 1.2 * (logarithm - 3.2) + 0.8 * (kind == 3) - 0.7 * (account == 2)
    flagged = rng.random(N_PAYMENTS) < 1 / (1 + np.exp(-risk))
    rows = pd.DataFrame(
        {
            "account": _labels(account, ["private", "business", "savings"]),
            "kind": _labels(kind, ["card", "cash", "debit", "transfer", "fee", "salary"]),
            "branch": _labels(branch, [f"b{i:02d}" for i in range(12)]),
            "flagged": _labels(flagged, ["no", "yes"]),
            "day": day,
            "amount": amount.round(2),
        }
    )
    bounds = {"day": (_to_day("2025-01-01"), _to_day("2025-12-31")), "amount": (1, 1e5)}
    return _table("Ledger", rows, bounds, "flagged", (), ("day",), ("amount",))


def stays() -> Table:
    """Generate hospital stays, with dates of birth and of admission, and rare diagnoses."""
    rng = np.random.default_rng(581)
    diagnosis = rng.choice(24, N_STAYS, p=_power_law(24, 1.3))
    middle_age = np.array([70, 32, 55, 8, 62, 78, 45, 28])[diagnosis % 8]
    age = (middle_age + rng.normal(0, 13, N_STAYS)).clip(0, 104)
    female = rng.random(N_STAYS) < np.where(diagnosis % 8 == 1, 0.97, 0.48)
    ward_shares = np.full((24, 7), 0.02)
    ward_shares[np.arange(24), np.arange(24) % 7] += 0.86
    ward = _draw_by_row(rng, ward_shares[diagnosis])
    # Every third diagnosis is one of winter.
    day_of_year = np.where(
        diagnosis % 3 == 0, rng.normal(15, 45, N_STAYS) % 365, rng.uniform(0, 365, N_STAYS)
    )
    admission = _to_day("2024-01-01") + 365 * rng.integers(0, 2, N_STAYS) + day_of_year.astype(int)
    birth = admission - (age * 365.25).astype(int)
    emergency = rng.random(N_STAYS) < 1 / (1 + np.exp(-((age - 60) / 20 + (diagnosis % 5) - 2)))
    mean_length = np.exp(0.6 + (diagnosis % 4) * 0.45 + age / 120 + 0.25 * emergency)
    length = rng.negative_binomial(2, 2 / (2 + mean_length)).clip(0, 90)
    discharge_shares = np.array([[0.86, 0.04, 0.09, 0.01], [0.52, 0.22, 0.17, 0.09]])
    discharge = _draw_by_row(rng, discharge_shares[(age > 75).astype(int)])
    rows = pd.DataFrame(
        {
            "sex": _labels(female, ["male", "female"]),
            "ward": _labels(ward, [f"w{i}" for i in range(7)]),
            "diagnosis": _labels(diagnosis, [f"d{i:02d}" for i in range(24)]),
            "emergency": _labels(emergency, ["no", "yes"]),
            "discharge": _labels(discharge, ["home", "care", "transfer", "died"]),
            "birth": birth,
            "admission": admission,
            "length": length,
        }
    )
    bounds = {
        "birth": (_to_day("1915-01-01"), _to_day("2025-12-31")),
        "admission": (_to_day("2024-01-01"), _to_day("2025-12-31")),
        "length": (0, 90),
    }
    return _table("Stays", rows, bounds, "emergency", ("length",), ("birth", "admission"))


def _draw_by_row(rng: np.random.Generator, shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Draw a category for each row, by its shares of all categories, (n, categories)."""
    cumulative = np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)
    return (rng.random((len(shares), 1)) > cumulative[:, :-1]).sum(axis=1)


def _power_law(n: int, exponent: float) -> NDArray[np.float64]:
    weights = np.arange(1.0, n + 1) ** -exponent
    return weights / weights.sum()


def _labels(codes: NDArray[np.int64] | NDArray[np.bool_], names: Sequence[str]) -> pd.Series[str]:
    return pd.Series(np.array(names)[codes.astype(np.int64)])


def _to_day(date: str) -> int:
    """Days since 1970."""
    return int(np.datetime64(date, "D").astype(np.int64))
