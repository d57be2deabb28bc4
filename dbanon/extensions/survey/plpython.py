"""The disclosure risk of samples inside PostgreSQL, for ``dbanon.doors.plpython``."""

from __future__ import annotations

from collections.abc import Callable

from dbanon.data.option import build_options, parameters
from dbanon.data.types import KeywordArguments
from dbanon.extensions.survey.assess import assess_sample
from dbanon.extensions.survey.read_sample import code_sample, read_population, read_table
from dbanon.extensions.survey.request import RiskRequest
from dbanon.extensions.survey.sample_risk import RiskRow
from dbanon.run.job_runner import RiskRunner
from dbanon.stores.ports import Source


class SampleRisks:
    """Measures the risk of samples; see ``dbanon.run.job_runner.RiskRunner``."""

    options = parameters(RiskRequest)

    def measure(
        self, options: KeywordArguments, source: Source, progress: Callable[[str, float], None]
    ) -> list[RiskRow]:
        """Measure the risk of a table, and return the figures as rows."""
        request = build_options(RiskRequest, options)

        def tick(share: float) -> None:
            progress("read", share)

        sample = read_table(request, source, tick)
        population = None
        if request.population is not None:
            population = read_population(request, source, tick)
        result, _ = assess_sample(
            code_sample(sample, population),
            request,
            tick=lambda share: progress("measure", share),
        )
        return list(result.measure_rows())


RUNNER: RiskRunner = SampleRisks()
