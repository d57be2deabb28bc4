"""The answers that two neighbouring tables give to the same queries, and the exact privacy loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass
class Transcript:
    """Noise that records queries and answers, or replays the answers of another run.

    Parameters
    ----------
    seed : random seed.
    recorded_answers : the answers of another run to replay.
    """

    seed: int = 0
    recorded_answers: list[Any] | None = None
    queries: list[tuple[str, Ints, float]] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def laplace(self, values: Ints, scale: float) -> Ints:
        return self._answer(
            "laplace",
            values,
            scale,
            lambda: values + self._integer_noise(self._rng.laplace, values, scale),
        )

    def gaussian(self, values: Ints, scale: float) -> Ints:
        return self._answer(
            "gaussian",
            values,
            scale,
            lambda: values + self._integer_noise(self._rng.normal, values, scale),
        )

    def choose(self, scores: Ints, scale: float) -> int:
        return self._answer("choice", scores, scale, lambda: self._chosen(scores, scale))

    def choose_concentrated(self, scores: Ints, scale: float) -> int:
        return self._answer("concentrated", scores, scale, lambda: self._chosen(scores, scale))

    def laplace_price(self, scale: float, sensitivity: int) -> float:
        return sensitivity / scale

    def gaussian_price(self, scale: float, length: float) -> float:
        return (length / scale) ** 2 / 2

    def choice_price(self, scale: float, sensitivity: int) -> float:
        return 2 * sensitivity / scale

    def concentrated_choice_price(self, scale: float, sensitivity: int) -> float:
        return (2 * sensitivity / scale) ** 2 / 8

    @property
    def shape(self) -> list[tuple[str, int, float]]:
        """The kind, size and scale of each query."""
        return [(kind, len(values), scale) for kind, values, scale in self.queries]

    def _integer_noise(self, draw: Callable[..., Any], values: Ints, scale: float) -> Ints:
        return np.rint(draw(0, scale, values.shape)).astype(np.int64)

    def _chosen(self, scores: Ints, scale: float) -> int:
        return int(np.argmax(scores + self._rng.gumbel(0, scale, len(scores))))

    def _answer(self, kind: str, values: Ints, scale: float, draw: Callable[[], Any]) -> Any:
        self.queries.append((kind, values.copy(), scale))
        replayed = (
            None if self.recorded_answers is None else self.recorded_answers[len(self.answers)]
        )
        self.answers.append(draw() if replayed is None else replayed)
        return self.answers[-1]


def privacy_loss(first: Transcript, second: Transcript, share: float = 1.0) -> float:
    """The privacy loss between two transcripts, the second of which replays the first's answers.

    Epsilon of Laplace noise, and of each choice; rho of Gaussian noise, and of each choice by the
    range in which its scores move.

    Parameters
    ----------
    share : share of the actual noise; half of it doubles the loss.
    """
    assert first.shape == second.shape
    loss = 0.0
    for (kind, values, scale), (_, other_values, _) in zip(
        first.queries, second.queries, strict=True
    ):
        moved, scale = (values - other_values).astype(float), scale * share
        if kind == "laplace":
            loss += np.abs(moved).sum() / scale
        elif kind == "gaussian":
            loss += np.square(moved).sum() / (2 * scale**2)
        elif kind == "choice":
            odds = [q / scale - np.logaddexp.reduce(q / scale) for q in (values, other_values)]
            loss += np.abs(odds[0] - odds[1]).max()
        else:
            loss += ((moved.max() - moved.min()) / scale) ** 2 / 8
    return float(loss)
