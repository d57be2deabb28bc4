"""Keys of job files: the documentation, the models and the schema agree."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from dbanon.data.option import all_parameters
from dbanon.doors.cli.main import main
from dbanon.doors.jobfile.columns import COLUMN_MODELS, ROLES, ModelSpec
from dbanon.doors.jobfile.field_types import COLUMN_KEYS, JOB_LEVEL_OPTIONS, RENAMED_KEYS
from dbanon.doors.jobfile.file import read_job_file
from dbanon.doors.jobfile.models import (
    SCHEMA_FILE,
    Defaults,
    ExportSpec,
    JobFileSpec,
    JobSpec,
    NoticeSpec,
    Output,
    Source,
    Target,
    build_json_schema,
    render_json_schema,
)
from dbanon.hierarchy.spec import KINDS
from dbanon.job.job import Job
from dbanon.job.private import private_method_options

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "jobs.md").read_text(encoding="utf-8")


def keys(model: Any) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def rows(head: str) -> set[str]:
    """The first cells of the table with this heading."""
    table = PAGE.partition(f"| {head} |")[2].partition("\n\n")[0]
    return set(re.findall(r"^\| `(\w+)` \|", table, re.M))


def test_documented_keys_are_those_of_the_models() -> None:
    assert rows("key of the file") == keys(JobFileSpec)
    shared = set(
        re.findall(r"`(\w+)`", PAGE.partition("These keys belong in a job")[2].partition("|")[0])
    )
    assert keys(Defaults) <= shared | rows("key")
    assert rows("key") | rows("key of a job") | keys(Defaults) == keys(JobSpec)
    assert rows("key") == {"on_new_column", "retries", "engine"}
    assert rows("`role`") == set(ROLES)
    for kind in COLUMN_MODELS:
        for key in keys(kind) - {"role"}:
            assert f"`{key}`" in PAGE
    for model in (Source, Target, Output, ModelSpec, ExportSpec, NoticeSpec):
        for key in keys(model):
            assert f"`{key}`" in PAGE, key
    for kind in (*KINDS, "file"):
        assert f"`{kind}`" in PAGE


def test_every_option_of_a_job_can_be_said_in_a_file() -> None:
    option_names = {
        parameter.name for parameter in (*all_parameters(Job), *private_method_options())
    }
    assert option_names == keys(Defaults) - {"on_new_column", "retries", "engine"} | {
        *COLUMN_KEYS,
        *JOB_LEVEL_OPTIONS,
        *RENAMED_KEYS,
    }
    of_columns = {key for kind in COLUMN_MODELS for key in keys(kind)}
    assert set(COLUMN_KEYS.values()) <= of_columns | set(ROLES)


def test_the_schema_is_that_of_the_models() -> None:
    schema = build_json_schema()
    parts = schema["$defs"]
    assert set(schema["properties"]) == keys(JobFileSpec)
    models: tuple[Any, ...] = (
        Source,
        Target,
        Output,
        ExportSpec,
        NoticeSpec,
        Defaults,
        JobSpec,
        ModelSpec,
        *COLUMN_MODELS,
    )
    for model in models:
        part = parts[model.__name__]
        assert set(part["properties"]) == keys(model)
        assert part["additionalProperties"] is False
    assert SCHEMA_FILE.read_text(encoding="utf-8") == render_json_schema()
    done = CliRunner().invoke(main, ["schema"])
    assert (done.exit_code, json.loads(done.stdout)) == (0, schema)


def test_the_example_on_the_page_is_right(tmp_path: Path) -> None:
    [text] = re.findall(r"```yaml\n(# yaml-language-server.*?)```", PAGE, re.S)
    file = tmp_path / "job.yaml"
    file.write_text(text)
    [job] = read_job_file(file).jobs
    assert job.job.policy.method == "kmember"
    assert job.job.where == "status = 'active'"
