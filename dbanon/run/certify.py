"""A certificate inside the run that makes a release: how near it is to the least possible loss."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.hierarchy.subset import only
from dbanon.job.policy import Policy
from dbanon.methods.registry import Tick
from dbanon.release.recode import Release
from dbanon.run.evaluate import attempted


def certify(microdata: Microdata, release: Release, policy: Policy, tick: Tick) -> dict[str, Any]:
    """The lower bound of the released records beside what they lost, or why there is none.

    A failure of it fails nothing else; what ``tick`` raises does: a cancel, a time limit.

    Parameters
    ----------
    microdata : all records that were read.
    """
    seconds = float(policy.certificate or 0.0)

    def work(told: Tick) -> dict[str, Any]:
        # A backend imports what bounds need only where they are asked for.
        from dbanon.run.bound import bound

        labels = release.partition.labels
        records = np.flatnonzero(labels >= 0)
        classes = Partition(labels[records])
        found = bound(only(microdata, records), int(policy.k), seconds, told, [classes])
        above = found.gap(release.loss)
        return {**found.to_dict(), "above": above if math.isfinite(above) else None}

    told, failed = attempted(work, tick)
    return {"limit": seconds, **(told or {"failed": failed})}
