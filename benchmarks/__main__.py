"""``python -m benchmarks [NAME …] [--quick]``: run benchmarks, print and keep their tables."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from benchmarks.markdown import machine

NAMES = (
    "generalization",
    "generalization_scale",
    "main_job",
    "mdav_speed",
    "methods",
    "plpython",
)
RESULTS = Path(__file__).resolve().parent / "results"


def main() -> None:
    """Run the named benchmarks, or all; whole runs replace the committed tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is written")
    arguments = parser.parse_args()
    for name in arguments.names or NAMES:
        if name not in NAMES:
            parser.error(f"no benchmark {name}")
        module = importlib.import_module(f"benchmarks.{name}")
        text = module.run(arguments.quick)
        print(text, flush=True)
        if not arguments.quick:
            page = getattr(module, "PAGE", RESULTS / f"{name}.md")
            page.write_text(f"{text}\n{machine()}\n")


if __name__ == "__main__":
    main()
