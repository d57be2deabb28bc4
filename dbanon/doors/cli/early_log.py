"""The JSON log of a command before the command itself is imported.

The entry point (``start``) creates it, and ``Log`` continues it once the command is imported. This
module imports only a small part of the standard library.
"""

from __future__ import annotations

import json
import time
import uuid
from datetime import datetime, timezone


class EarlyLog:
    """The first lines of a command's JSON log.

    Attributes
    ----------
    run_id : UUID of the command's run.
    start_time : start of the command on the monotonic clock, in seconds.
    has_ended : whether the last line was written.
    """

    def __init__(self) -> None:
        self.run_id, self.start_time, self.has_ended = str(uuid.uuid4()), time.monotonic(), False

    def format_line(
        self, level: str, event: str, code: str | None = None, **extra_fields: object
    ) -> str:
        """Build a line of the JSON log, without writing it."""
        return json.dumps(
            {
                "ts": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
                "level": level,
                "event": event,
                "run_id": self.run_id,
                "release_id": None,
                "phase": None,
                "seconds": round(time.monotonic() - self.start_time, 3),
                "code": code,
            }
            | extra_fields
        )


# The log of this process; None unless its command logs JSON.
early_log: EarlyLog | None = None
