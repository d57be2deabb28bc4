"""A driver in a separate process: ``python -m tests.spark.driver`` with its order as JSON.

It prints a line for each event that a test waits for, and at the end the report or the error.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from typing import Any

# Longer than any test waits.
_LONG = 300


def main(arguments: dict[str, Any]) -> None:
    if arguments.get("largest_file"):
        # Simulates a full disk, for this process and the Java process that it starts.
        resource.setrlimit(resource.RLIMIT_FSIZE, (arguments["largest_file"],) * 2)
    from dbanon.errors import DbanonError
    from dbanon.extensions.spark import into_postgresql
    from dbanon.spark import anonymize_table, open_session

    warnings.simplefilter("ignore")
    lock = into_postgresql.pieces.lock

    def wait(session: Any, condition: Any) -> None:
        print("staged", flush=True)
        time.sleep(_LONG)
        lock(session, condition)

    if arguments.get("wait"):
        into_postgresql.pieces.lock = wait
    try:
        session = open_session(arguments["master"], arguments["conf"])
    except DbanonError as error:
        print(json.dumps(error.to_dict()), flush=True)
        return
    print("open", flush=True)
    try:
        if not arguments.get("asked"):
            return
        report = anonymize_table(session, arguments["url"], arguments["url"], **arguments["asked"])
        print(json.dumps({"release_id": report.release_id}), flush=True)
    except DbanonError as error:
        print(json.dumps(error.to_dict()), flush=True)
    finally:
        session.stop()


if __name__ == "__main__":
    main(json.loads(sys.stdin.readline()))
