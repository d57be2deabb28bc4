"""``python -m benchmarks [NAME …] [--quick]``: run benchmarks, print and keep their tables.

``--beside PYTHON`` lets another version take turns with this one, by an interpreter that has it.
``--big`` measures larger tables, too, where a benchmark has some.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from benchmarks.markdown import NotMeasuredError, machine

NAMES = (
    "advise",
    "alignment",
    "attacks",
    "bounds",
    "calls",
    "cancellation",
    "chain_returns",
    "chain_sybils",
    "chain_speed",
    "chains",
    "evaluation",
    "exports",
    "folders",
    "forecast",
    "generalization",
    "generalization_scale",
    "labels",
    "level_speed",
    "main_job",
    "mariadb",
    "mdav_speed",
    "method_speed",
    "methods",
    "mixed",
    "mixed_beside",
    "mixed_evaluation",
    "mixed_speed",
    "models",
    "models_adult",
    "peers",
    "person_rows",
    "plpython",
    "privacy",
    "second_round",
    "spark",
    "spill",
    "spill_columns",
    "spill_memory",
    "startup",
    "synthesis_forecast",
    "synthesis_numbers",
    "synthesis_seven",
    "third_round",
    "thorough",
    "untuned",
)
ON_REQUEST = (
    "advise",
    "attacks",
    "bounds",
    "chain_returns",
    "chain_sybils",
    "chain_speed",
    "folders",
    "forecast",
    "level_speed",
    "mariadb",
    "mixed_beside",
    "mixed_evaluation",
    "mixed_speed",
    "models_adult",
    "peers",
    "second_round",
    "spark",
    "spill",
    "spill_memory",
    "synthesis_forecast",
    "synthesis_seven",
    "third_round",
    "thorough",
    "untuned",
)  # minutes, if named
WITH_ANOTHER = (
    "advise",
    "attacks",
    "evaluation",
    "level_speed",
    "main_job",
    "mixed_beside",
    "mixed_evaluation",
    "mixed_speed",
    "models_adult",
    "peers",
    "plpython",
    "second_round",
    "startup",
    "synthesis_numbers",
    "synthesis_seven",
    "third_round",
    "untuned",
)
WITH_BIG = ("spark", "spill_memory", "untuned")
RESULTS = Path(__file__).resolve().parent / "results"
DOCS = RESULTS.parents[1] / "docs"
IN_DOCS = {
    name: DOCS / f"{name}-measured.md"
    for name in ("generalization", "methods", "mixed", "models", "thorough")
}
IN_DOCS["privacy"] = DOCS / "differential-privacy-measured.md"


def main() -> None:
    """Run the named benchmarks, or all but the longest; full runs replace the committed tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is written")
    parser.add_argument(
        "--beside",
        metavar="PYTHON",
        help=f"interpreter with another version, measured in turn by {', '.join(WITH_ANOTHER)}",
    )
    parser.add_argument(
        "--big", action="store_true", help=f"larger tables, too: {', '.join(WITH_BIG)}"
    )
    arguments = parser.parse_args()
    for name in arguments.names or [name for name in NAMES if name not in ON_REQUEST]:
        if name not in NAMES:
            parser.error(f"no benchmark {name}")
        options = {"other_python": arguments.beside} if name in WITH_ANOTHER else {}
        if name in WITH_BIG:
            options |= {"big": arguments.big}
        try:
            text = importlib.import_module(f"benchmarks.{name}").run(arguments.quick, **options)
        except NotMeasuredError as error:
            print(f"{name}: not measured: {error}", flush=True)
            continue
        print(text, flush=True)
        if not arguments.quick:
            RESULTS.mkdir(exist_ok=True)
            IN_DOCS.get(name, RESULTS / f"{name}.md").write_text(f"{text}\n{machine()}\n")


if __name__ == "__main__":
    main()
