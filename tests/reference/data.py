"""Reference data of the literature: not part of the project, found where DBANON_DATA says."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

VARIABLE = "DBANON_DATA"

CASC_SHAPES = {"tarragona": (834, 13), "census": (1080, 13), "eia": (4092, 11)}

# For the files that the tests read.
ADULT_FILES = (
    "adult/adult.csv",
    *(
        f"adult/hierarchies/{column}.csv"
        for column in (
            "sex",
            "education",
            "marital-status",
            "race",
            "workclass",
            "native-country",
            "salary-class",
        )
    ),
)
MAGIC_FILE = "magic/magic04.csv"

# Text, and dates that the published figures leave out.
_LEFT_OUT = frozenset({"UTILNAME", "STATE", "YEAR", "MONTH"})


@dataclass(frozen=True)
class Table:
    """Numeric columns: `names` of length d, `values` of shape (n, d), float64."""

    names: tuple[str, ...]
    values: NDArray[np.float64]


def data_folder() -> Path:
    """Where casc, adult, magic and sdcmicro are looked for, whether or not they are there."""
    configured = os.environ.get(VARIABLE)
    return Path(configured or Path(__file__).resolve().parents[3] / "shared" / "data")


def data_directory() -> Path | None:
    """`data_folder`, or None if there is no such folder."""
    folder = data_folder()
    return folder if folder.is_dir() else None


def load_casc(name: str, directory: Path) -> Table:
    """The numeric columns, as used in the literature, of `tarragona`, `census` or `eia`."""
    with (directory / "casc" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    used = [index for index, column in enumerate(header) if column not in _LEFT_OUT]
    values = np.array([[float(row[index]) for index in used] for row in rows])
    if values.shape != CASC_SHAPES[name]:
        raise ValueError(f"{name}.csv has the shape {values.shape}, not {CASC_SHAPES[name]}")
    return Table(tuple(header[index] for index in used), values)


def load_magic(directory: Path) -> Table:
    """The ten numbers of each of the 19,020 showers of MAGIC, in the order of the file."""
    with (directory / "magic" / "magic04.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    values = np.array([[float(field) for field in row[:-1]] for row in rows])
    if values.shape != (19_020, 10):
        raise ValueError(f"magic04.csv has the shape {values.shape}")
    return Table(tuple(header[:-1]), values)
