"""Python code in the docs passes a type checker, as it would on a reader's machine."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^(?:<!-- (?P<mark>.*?) -->\n)?```python\n(?P<code>.*?)^```$", re.M | re.S)
# Pages leave out what readers provide: tables, arguments (`...`), types of small functions, and
# checks for figures that a call requests.
_LEFT_OUT = (
    "name-defined",
    "used-before-def",
    "has-type",
    "call-overload",
    "arg-type",
    "operator",
    "index",
    "import-untyped",
)
_LENIENT = f"""
[[tool.mypy.overrides]]
disallow_untyped_defs = false
disallow_untyped_calls = false
allow_redefinition = true
disable_error_code = {list(_LEFT_OUT)}
"""


def code_of(page: Path) -> str:
    """The blocks of a page as one program, with their original line numbers."""
    text = page.read_text()
    lines = [""] * text.count("\n")
    for block in _BLOCK.finditer(text):
        if (block["mark"] or "").startswith(("change:", "file:")):
            continue
        first = text[: block.start("code")].count("\n")
        for number, line in enumerate(block["code"].splitlines(), first):
            lines[number] = line
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_python_in_the_docs_passes_mypy_strict(tmp_path: Path) -> None:
    names = []
    pages = {ROOT / "README.md", *(ROOT / "docs").glob("*.md")}
    # This code belongs to a modified copy of the checkout, and is run there.
    pages -= {ROOT / "docs" / "extending.md"}
    for page in sorted(pages):
        if (code := code_of(page)).strip():
            names.append(f"page_{page.stem.replace('-', '_').lower()}.py")
            (tmp_path / names[-1]).write_text(code)
    assert "page_python.py" in names
    # The pages' options are those of their modules alone: for all others, the cache of `make lint`
    # is valid.
    modules = f"module = {[name.removesuffix('.py') for name in names]}\n"
    config = (ROOT / "pyproject.toml").read_text() + _LENIENT + modules
    (tmp_path / "pyproject.toml").write_text(config)
    if (ROOT / ".mypy_cache").exists():
        shutil.copytree(ROOT / ".mypy_cache", tmp_path / ".mypy_cache")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--config-file",
            "pyproject.toml",
            *names,
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
