"""The interfaces without a database: data frames and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

import dbanon
from tests.golden import tables
from tests.golden.answers import Door, report_of
from tests.golden.cases import NUMBERS, Arguments, of_method
from tests.golden.doors import METHODS, Answer, answer_of, with_models


class Frame(Door):
    """``dbanon.anonymize_frame``."""

    name = "frame"
    without = frozenset(
        {"key", "output_kind", "if_exists", "chunk_rows", "memory_limit", "table", "output"}
    )

    def __init__(self) -> None:
        self.frame = frame()

    def answer(self, arguments: Arguments) -> Answer:
        def work() -> Answer:
            released, report = dbanon.anonymize_frame(self.frame, **with_models(arguments))
            rows = sorted(repr(row) for row in released.itertuples(index=False, name=None))
            types = {str(name): str(kind) for name, kind in released.dtypes.items()}
            return report_of(report) | {"released": rows, "types": types}

        return answer_of(work)


def frame() -> pd.DataFrame:
    """The table of people as a data frame."""
    table = pd.DataFrame(tables.rows(), columns=list(tables.COLUMNS))
    table["born"] = pd.to_datetime(table["born"])
    table["income"] = table["income"].astype(float)
    table["size"] = pd.Categorical(table["size"], categories=tables.SIZES, ordered=True)
    return table


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
        for arguments in arrays.values():
            for name in ("hierarchies", *self.without):
                arguments.pop(name, None)
        # Arrays have no budget for withheld rows.
        arrays["array full_domain"]["options"] = {}
        frame_cases = {f"frame {method}": of_method(method) for method in METHODS}
        for arguments in frame_cases.values():
            for name in self.without:
                arguments.pop(name, None)
        return arrays | frame_cases | super().cases()

    def answer(self, arguments: Arguments) -> Answer:
        call = dict(arguments)
        names = call.pop("quasi_identifiers")
        as_array = call.pop("array", False)

        def work() -> Answer:
            data: Any = self.frame[names]
            if as_array:
                data = data.to_numpy(dtype=float)
                if call["method"] == "optimal_univariate":
                    data = data[:, :1]
            k = call.pop("k")
            partition = dbanon.partition(data, k, **(call.pop("options", {}) | call))
            return _classes(partition) | self._losses(data, partition, call)

        return answer_of(work)

    def _losses(self, data: Any, partition: Any, call: Mapping[str, Any]) -> Answer:
        if not isinstance(partition, dbanon.Partition):
            return {}
        more = {n: call[n] for n in ("orders",) if n in call}
        trees = {"hierarchies": call["hierarchies"]} if "hierarchies" in call else {}
        answer = {}
        for name, loss in (
            ("information_loss", lambda: dbanon.information_loss(data, partition, **more)),
            (
                "generalization_loss",
                lambda: dbanon.generalization_loss(data, partition, **more, **trees),
            ),
        ):
            result = answer_of(lambda loss=loss: {"value": loss()})  # type: ignore[misc]
            answer |= {f"{name}.{key}": value for key, value in result.items()}
        return answer


def _classes(partition: Any) -> Answer:
    """Labels, and the other fields of a result."""
    answer: Answer = {"kind": type(partition).__name__}
    for name in ("labels", "levels", "n_classes", "n_suppressed"):
        if hasattr(partition, name):
            value = getattr(partition, name)
            answer[name] = np.asarray(value).tolist() if name == "labels" else _plain_mapping(value)
    if hasattr(partition, "partitions"):
        answer["labels"] = [part.labels.tolist() for part in partition.partitions]
    return answer


def _plain_mapping(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
