"""Forecast the CPU seconds for clustering from trials on a sample of a table's records.

Seconds depend on the values: on ties, outliers, directions, and the number of different categories.
Trials know the values and the machine; the power laws of ``partitioning.forecast`` know neither.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace

import numpy as np

from dbanon.data.microdata import Microdata
from dbanon.errors import DbanonError
from dbanon.hierarchy.leaves import TreeBuilder, take_records
from dbanon.job.policy import Policy
from dbanon.methods.forecast import Shape
from dbanon.partitioning.forecast import ClusteringSeconds, count_blocks, forecast_refinement
from dbanon.partitioning.partition_for import partition_for

# The largest trial; each trial has half of the records of the next one.
SAMPLE_RECORDS, _N_TRIALS = 48_000, 8
# Tables of fewer records take few seconds, whatever their values are. Power laws suffice for them.
MIN_RECORDS = 10_000
# After so many CPU seconds of one trial there are no larger ones, unless they are needed for the
# exponent of the records. It is measured over two doublings, and kept between two bounds.
_ENOUGH_SECONDS, _MIN_TRIALS = 1.0, 3
_MIN_EXPONENT, _MAX_EXPONENT = 0.9, 2.0


def forecast_by_trials(
    sample: Microdata,
    policy: Policy,
    n_records: int,
    shape: Shape,
    *,
    distinct_share: float = 1.0,
    trees: TreeBuilder | None = None,
) -> ClusteringSeconds | None:
    """Forecast the seconds for all records of a table; None if trials cannot tell them.

    Like other forecasts, this one excludes reading, privacy models, recoding and writing. The
    refinement is forecast by its power law.

    Parameters
    ----------
    sample : a random sample of the table's records, coded as the policy says.
    n_records : the number of all records.
    shape : the number of attributes of each kind.
    distinct_share : the number of distinct records as a share of all records; 1 if unknown.
    trees : builds the hierarchies for a subset of the records; None to use those of the policy.
    """
    refinement_seconds = forecast_refinement(policy, n_records, shape, distinct_share)
    if refinement_seconds is None:
        return None
    plain_policy = replace(
        policy,
        refine=None,
        refine_iterations=None,
        refine_seconds=None,
        block_size=None,
        models=(),
        also_k=(),
        withhold_failing=False,
    )
    # Small trials take records from all of the sample, whatever its order is.
    order = np.random.default_rng(0).permutation(sample.n_records)[:SAMPLE_RECORDS]
    seconds: list[float] = []
    for halvings in reversed(range(_N_TRIALS)):
        n_trial = len(order) >> halvings
        records = take_records(sample, np.sort(order[:n_trial]))
        try:
            seconds.append(_measure_seconds(records, plain_policy, trees))
        except DbanonError:
            # Strata and patterns of NULLs may have fewer than k of so few records.
            seconds.clear()
        if len(seconds) >= _MIN_TRIALS and seconds[-1] >= _ENOUGH_SECONDS:
            break
    if len(seconds) < _MIN_TRIALS:
        return None
    n_blocks = count_blocks(policy, n_records)
    exponent = math.log(seconds[-1] / seconds[-_MIN_TRIALS]) / math.log(2 ** (_MIN_TRIALS - 1))
    growth = (n_records / n_blocks / n_trial) ** min(max(exponent, _MIN_EXPONENT), _MAX_EXPONENT)
    return ClusteringSeconds(n_blocks * seconds[-1] * growth, refinement_seconds)


def _measure_seconds(records: Microdata, policy: Policy, trees: TreeBuilder | None) -> float:
    """Measure the CPU seconds for clustering these records.

    Raises
    ------
    DbanonError : as ``partition_for``.
    """
    with warnings.catch_warnings():
        # The run gives them.
        warnings.simplefilter("ignore")
        started = time.process_time()
        partition_for(records, policy, trees=trees)
        return max(time.process_time() - started, 1e-6)
