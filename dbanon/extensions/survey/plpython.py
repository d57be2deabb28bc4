"""The disclosure risk of samples inside PostgreSQL, for ``dbanon.doors.plpython``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dbanon.data.option import build_options, parameters
from dbanon.data.types import JsonMapping, KeywordArguments
from dbanon.extensions.survey.assess import assess_sample
from dbanon.extensions.survey.frequencies import Frequencies
from dbanon.extensions.survey.individual_risk import compute_individual_risks
from dbanon.extensions.survey.read_sample import (
    code_sample,
    read_population,
    read_released,
    read_table,
)
from dbanon.extensions.survey.request import RiskRequest
from dbanon.extensions.survey.risk_comparison import RiskComparison, compare_samples
from dbanon.measures.agreement import Floats, Ints
from dbanon.release.risk_figures import RiskFigures, RiskRow
from dbanon.run.job_runner import RiskRunner, TableRows
from dbanon.stores.ports import Source


class SampleRisks:
    """Measures the risk of samples; see ``dbanon.run.job_runner.RiskRunner``."""

    options = parameters(RiskRequest)

    def measure(
        self, options: KeywordArguments, source: Source, progress: Callable[[str, float], None]
    ) -> list[RiskRow]:
        """Measure the risk of a table, and of its release, and return the figures as rows."""
        request = build_options(RiskRequest, options)

        def tick(share: float) -> None:
            progress("read", share)

        sample = read_table(request, source, tick)
        population = None
        if request.population is not None:
            population = read_population(request, source, tick)
        coded_sample = code_sample(sample, population)

        def measure_tick(share: float) -> None:
            progress("measure", share)

        if request.released is None:
            result, _ = assess_sample(coded_sample, request, tick=measure_tick)
            return list(result.measure_rows())
        released, released_request = read_released(request, source, tick)
        comparison, _ = compare_samples(
            coded_sample, code_sample(released), request, released_request, tick=measure_tick
        )
        return list(comparison.measure_rows())

    def sum_risks(self, class_sizes: Ints, persons: Floats) -> float:
        """Add up the individual risks of all records, by classes of records that match."""
        risks = compute_individual_risks(Frequencies(class_sizes, persons))
        return float(class_sizes @ risks)

    def require_options(self, options: KeywordArguments) -> None:
        """Check options of a measurement without a table."""
        build_options(RiskRequest, {"table": "", **options})

    def compare(
        self,
        options: KeywordArguments,
        sample: TableRows,
        released: TableRows,
        tick: Callable[[float], None],
    ) -> RiskFigures:
        """Measure the risk of a table and of its release."""
        # Backends do not compare the releases of jobs.
        from dbanon.extensions.survey.release_risk import compare_release

        names = {"table": sample.name, "released": released.name}
        request = build_options(RiskRequest, {**options, **names})
        return compare_release(request, sample, released, tick)

    def write(self, figures: RiskFigures, release_id: str, file: Path) -> None:
        """Write figures to a new file that only its owner can read."""
        from dbanon.extensions.survey.release_risk import write_private_figures

        assert isinstance(figures, RiskComparison)
        write_private_figures(figures, release_id, file)

    def read(self, file: Path) -> tuple[RiskFigures, str | None]:
        """Read figures from a JSON file, and the id of their release; None if it has none."""
        from dbanon.extensions.survey.risk_figures import read_comparison

        return read_comparison(file)

    def describe_for_page(self, figures: RiskFigures) -> JsonMapping:
        """Return what the owner's page of a release shows."""
        from dbanon.extensions.survey.risk_page import describe_section

        assert isinstance(figures, RiskComparison)
        return describe_section(figures.view())


RUNNER: RiskRunner = SampleRisks()
