"""Microaggregation by a genetic algorithm, for small tables, and a two-step method based on it.

A chromosome has one gene per record, the number of its class. Two parents are drawn with
probability proportional to fitness, 1 / (1 + SSE). With probability ``crossover`` a child takes the
genes after a random point from the second parent. Each gene is replaced by a random one with
probability ``mutation``. A child whose classes are too small or too large is repaired: classes
below k are filled with random records of larger classes, or dissolved if no class is larger, and k
random records of a class of 2k or more become a new class. (The source discards such children,
which leaves few children for larger k.) The best chromosome of each generation survives.

``two_step`` first groups the records into large classes with MDAV, then runs the genetic algorithm
inside each of them.

Sources: A. Solanas, A. Martínez-Ballesté, J. M. Mateo-Sanz and J. Domingo-Ferrer, "Multivariate
microaggregation based on genetic algorithms", IEEE IS 2006; A. Martínez-Ballesté, A. Solanas, J.
Domingo-Ferrer and J. M. Mateo-Sanz, "A genetic approach to multivariate microaggregation for
database privacy", ICDE Workshops 2007.
Classes: k to 2k-1.
Cost: O(population generations n p). The search space grows so fast that ``genetic`` is not useful
for more than about 50 records; ``two_step`` takes any number of records.
"""

from __future__ import annotations

import numpy as np

from dbanon.data.option import Option, Parameter
from dbanon.data.partition import Partition
from dbanon.kernels import Genetic
from dbanon.methods.mdav import mdav
from dbanon.methods.registry import Method, Tick, drive, run_on_parts
from dbanon.spaces.numeric import Space

# The share of the progress bar for the first step of ``two_step``, MDAV.
_FIRST_STEP_SHARE = 0.1


def genetic(
    space: Space,
    k: int,
    *,
    tick: Tick,
    rng: np.random.Generator,
    population: int,
    generations: int,
    crossover: float,
    mutation: float,
) -> Partition:
    """Partition the points of ``space``, float64 (n, p), into classes of k to 2k-1 records."""
    seed = int(rng.integers(2**63))
    kernel = Genetic(space.points, k, population, generations, crossover, mutation, seed)
    return drive(kernel, tick)


def two_step(
    space: Space,
    k: int,
    *,
    tick: Tick,
    rng: np.random.Generator,
    macro: int,
    population: int,
    generations: int,
    crossover: float,
    mutation: float,
) -> Partition:
    """Partition the points of ``space``, float64 (n, p), into classes of k to 2k-1 records.

    Parameters
    ----------
    macro : the size of the large classes that MDAV forms first; k if that is larger.
    """
    macro_size = min(max(macro, k), space.n_records)
    macro_classes = mdav(
        space, macro_size, tick=lambda share: tick(_FIRST_STEP_SHARE * share), rng=rng
    )
    parts = [
        macro_classes.members[start : start + size]
        for start, size in zip(macro_classes.starts, macro_classes.sizes, strict=True)
    ]

    def partition_part(part: Space, part_tick: Tick) -> Partition:
        return genetic(
            part,
            k,
            tick=part_tick,
            rng=rng,
            population=population,
            generations=generations,
            crossover=crossover,
            mutation=mutation,
        )

    return run_on_parts(
        space,
        parts,
        partition_part,
        lambda share: tick(_FIRST_STEP_SHARE + (1 - _FIRST_STEP_SHARE) * share),
    )


_OPTIONS = (
    Parameter(
        "population", int, 40, Option("Chromosomes in a generation.", minimum=2, maximum=10_000)
    ),
    Parameter(
        "generations", int, 300, Option("Number of generations.", minimum=0, maximum=1_000_000)
    ),
    Parameter(
        "crossover",
        float,
        0.5,
        Option("Probability that a child has two parents.", minimum=0.0, maximum=1.0),
    ),
    Parameter(
        "mutation",
        float,
        0.02,
        Option("Probability that a gene is replaced by a random one.", minimum=0.0, maximum=1.0),
    ),
)

METHOD = Method(
    name="genetic",
    run=genetic,
    summary="Genetic algorithm for sets of some 50 records",
    cost="O(population generations n)",
    reference="Solanas et al. 2006",
    random=True,
    options=_OPTIONS,
)
TWO_STEP = Method(
    name="two_step",
    run=two_step,
    summary="MDAV into large classes, then the genetic algorithm inside each",
    cost="that of mdav, and O(population generations n)",
    reference="Martínez-Ballesté et al. 2007",
    random=True,
    options=(
        Parameter("macro", int, 30, Option("Records in a large class, at least k.", minimum=2)),
        *_OPTIONS,
    ),
)
