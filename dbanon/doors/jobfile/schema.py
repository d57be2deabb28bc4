"""The JSON Schema of job files: what editors check them by. The wheel has it as a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from dbanon.doors.jobfile.models import JobFileSpec

FILE = Path(__file__).with_name("job.schema.json")


def json_schema() -> dict[str, Any]:
    """The schema of a file, draft 2020-12."""
    found = JobFileSpec.model_json_schema(by_alias=True)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        **found,
        "title": "Job file of dbanon",
    }


def schema_text() -> str:
    """The schema as it is printed, and stands in the file."""
    return json.dumps(json_schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(schema_text(), encoding="utf-8")
