"""``python -m tests.golden record|diff|show [--door NAME …] [--case TEXT]``."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.backend_package import copy_package
from tests.golden import records
from tests.golden.house import DOORS, IN_POSTGRESQL, Open, installed, opened
from tests.postgres_server import throwaway_server


@contextmanager
def _environment(needs_server: bool) -> Iterator[Open]:
    folder = Path(tempfile.mkdtemp(prefix="dbanon-golden-"))
    folder.chmod(0o755)
    try:
        if not needs_server:
            yield Open(folder)
            return
        package = folder / "site"
        package.mkdir()
        with (
            throwaway_server(fsync=False, kind="local") as server,
            installed(server, copy_package(package)) as url,
        ):
            yield Open(folder, url, package)
    finally:
        shutil.rmtree(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["record", "diff", "show"])
    parser.add_argument("--door", action="append", choices=DOORS)
    parser.add_argument("--case", default="", help="only cases whose name has this text")
    parsed = parser.parse_args()
    doors = parsed.door or list(DOORS)
    different = 0
    with _environment(not IN_POSTGRESQL.isdisjoint(doors)) as environment:
        for name in doors:
            with opened(name, environment) as door:
                answers = {c: a for c, a in door.answers() if parsed.case in c}
            if parsed.what == "show":
                print(
                    json.dumps(
                        {
                            c: records.masked_answer(a, environment.folders)
                            for c, a in answers.items()
                        },
                        indent=1,
                        ensure_ascii=False,
                        default=str,
                    )
                )
                continue
            cases = {c: records.recorded(a, environment.folders) for c, a in answers.items()}
            if parsed.what == "record":
                path = records.save(name, cases)
                print(f"{name}: {len(cases)} cases, {path.stat().st_size // 1024} KB")
                continue
            before = {c: k for c, k in records.load(name).items() if parsed.case in c}
            differences = list(records.differences(name, before, cases))
            different += len(differences)
            print(
                "\n".join(
                    [*differences, f"{name}: {len(cases)} cases, {len(differences)} differences"]
                )
            )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
