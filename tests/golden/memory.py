"""The doors without a database: data frames and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

import dbanon
from tests.golden import tables
from tests.golden.answers import Door, report_of
from tests.golden.cases import NUMBERS, Arguments, of_method
from tests.golden.doors import METHODS, Answer, asked, with_models


class Frame(Door):
    """``dbanon.anonymize_frame``."""

    name = "frame"
    without = frozenset(
        {"key", "output_kind", "if_exists", "chunk_rows", "memory_limit", "table", "output"}
    )

    def __init__(self) -> None:
        self.frame = frame()

    def answer(self, given: Arguments) -> Answer:
        def work() -> Answer:
            released, report = dbanon.anonymize_frame(self.frame, **with_models(given))
            rows = sorted(repr(row) for row in released.itertuples(index=False, name=None))
            types = {str(name): str(kind) for name, kind in released.dtypes.items()}
            return report_of(report) | {"released": rows, "types": types}

        return asked(work)


def frame() -> pd.DataFrame:
    """The table of people as a data frame."""
    made = pd.DataFrame(tables.rows(), columns=list(tables.COLUMNS))
    made["born"] = pd.to_datetime(made["born"])
    made["income"] = made["income"].astype(float)
    made["size"] = pd.Categorical(made["size"], categories=tables.SIZES, ordered=True)
    return made


class Arrays(Door):
    """``dbanon.partition`` and the losses of its classes."""

    name = "arrays"
    without = (Frame.without - {"memory_limit"}) | {
        *("recoding", "models", "withhold_failing", "intervals", "local_range", "steps"),
        *("guarantee", "max_suppression", "by", "sensitive", "keep", "entity", "memory_limit"),
    }

    def __init__(self) -> None:
        self.frame = frame()

    def cases(self) -> dict[str, Arguments]:
        arrays = {
            f"array {method}": of_method(method) | {"quasi_identifiers": NUMBERS, "array": True}
            for method in METHODS
        }
        for given in arrays.values():
            for name in ("hierarchies", *self.without):
                given.pop(name, None)
        # Arrays have no budget for withheld rows.
        arrays["array full_domain"]["options"] = {}
        own = {f"frame {method}": of_method(method) for method in METHODS}
        for given in own.values():
            for name in self.without:
                given.pop(name, None)
        return arrays | own | super().cases()

    def answer(self, given: Arguments) -> Answer:
        call = dict(given)
        names = call.pop("quasi_identifiers")
        as_array = call.pop("array", False)

        def work() -> Answer:
            data: Any = self.frame[names]
            if as_array:
                data = data.to_numpy(dtype=float)
                if call["method"] == "optimal_univariate":
                    data = data[:, :1]
            k = call.pop("k")
            found = dbanon.partition(data, k, **(call.pop("options", {}) | call))
            return _classes(found) | self._losses(data, found, call)

        return asked(work)

    def _losses(self, data: Any, found: Any, call: Mapping[str, Any]) -> Answer:
        if not isinstance(found, dbanon.Partition):
            return {}
        more = {n: call[n] for n in ("orders",) if n in call}
        trees = {"hierarchies": call["hierarchies"]} if "hierarchies" in call else {}
        answer = {}
        for name, loss in (
            ("information_loss", lambda: dbanon.information_loss(data, found, **more)),
            (
                "generalization_loss",
                lambda: dbanon.generalization_loss(data, found, **more, **trees),
            ),
        ):
            told = asked(lambda loss=loss: {"value": loss()})  # type: ignore[misc]
            answer |= {f"{name}.{key}": value for key, value in told.items()}
        return answer


def _classes(found: Any) -> Answer:
    """Labels and all that a result says beside them."""
    answer: Answer = {"kind": type(found).__name__}
    for name in ("labels", "levels", "n_classes", "n_suppressed"):
        if hasattr(found, name):
            value = getattr(found, name)
            answer[name] = np.asarray(value).tolist() if name == "labels" else _plain_mapping(value)
    if hasattr(found, "partitions"):
        answer["labels"] = [part.labels.tolist() for part in found.partitions]
    return answer


def _plain_mapping(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
