"""No text asks a registry for the name ``dbanon``.

The name is not registered, so anybody could register it and run code on readers' machines. All
commands install from a checkout or a wheel file.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from dbanon.doors.server_python import install_hint
from dbanon.errors.extras import REQUIREMENTS, MissingDependency

ROOT = Path(__file__).resolve().parents[2]
# It quotes what it forbids.
OWN_FILE = "tests/docs/test_install_lines.py"
# An extra that includes others of the same project: pip does not look these up elsewhere.
SELF_REFERENCES = "pyproject.toml"
INSTALLER = re.compile(
    r"""\b(?:pip[\d.]*\s+(?:install|download|wheel)|pipx\s+(?:install|run)|poetry\s+add
        |uv\s+(?:add|pip\s+install|tool\s+(?:install|run))|uvx|(?:conda|mamba)\s+install)
        \s(?P<arguments>.*)""",
    re.X,
)
END_OF_COMMAND = re.compile(r"[`;|]|&&|\s#")
# The name by itself, or with extras, a version or an address.
REQUIREMENT = re.compile(r"dbanon(?:[\[=<>~!@].*)?", re.I)
# In prose: `install dbanon[all]`.
EXTRA = re.compile(r"(?<![\w./*-])dbanon\[[a-z][\w, ]*\]", re.I)


def registry_lines(text: str) -> list[str]:
    """The lines with which an installer would ask a registry for ``dbanon``."""
    lines = []
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        command = INSTALLER.search(line)
        arguments = END_OF_COMMAND.split(command["arguments"])[0].split() if command else []
        words = (word.strip("\\\"'(),.:") for word in arguments)
        if EXTRA.search(line) or any(REQUIREMENT.fullmatch(word) for word in words):
            lines.append(line.strip())
    return lines


def text_files() -> dict[str, str]:
    """The texts of all files that a commit of this checkout would contain, by path."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    texts = {}
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file() and b"\0" not in (content := (ROOT / name).read_bytes()):
            texts[name] = content.decode(errors="replace")
    return texts


def test_no_file_asks_a_registry_for_dbanon() -> None:
    texts = text_files()
    assert {"README.md", "docs/install.md", "sql/python/private.sql", OWN_FILE} <= set(texts)
    uses = [
        f"{name}: {line}"
        for name, text in texts.items()
        if name not in (OWN_FILE, SELF_REFERENCES)
        for line in registry_lines(text)
    ]
    assert uses == []


def test_no_hint_asks_a_registry_for_dbanon() -> None:
    hints = [MissingDependency.of_extra("This", "x", extra).hint for extra in REQUIREMENTS]
    hints += [
        MissingDependency.of_spark("x").hint,
        install_hint("3.13"),
        install_hint("3.13", "/a/b.whl"),
    ]
    for hint in hints:
        assert "pip install" in str(hint)
        assert registry_lines(str(hint)) == []


@pytest.mark.parametrize(
    "text",
    [
        "pip install dbanon",
        "    pip install 'dbanon[all]'    # all",
        'uv pip install "dbanon==0.3"',
        "sudo python3.11 -m pip install --target /usr/local/lib/dbanon dbanon    # owned by root",
        "RUN pip3 install --no-cache-dir \\\n    numpy dbanon",
        "pipx install DBanon",
        "uvx dbanon",
        'It needs `pip install \\"dbanon[plot]\\"`.',
        "dbanon: pip install ''dbanon[dp]''. See",
        "no browser: install dbanon[dev]",
        "pip install dbanon@https://example.org/x.whl",
        "uv add dbanon~=1",
        "pip install {what} 'dbanon[{extra}]'",
    ],
)
def test_a_violating_line_is_reported(text: str) -> None:
    assert len(registry_lines(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "pip install '.[all]'",
        "pip install './dbanon-0.3.0-cp312-abi3-linux_x86_64.whl[all]'",
        "pip install --target /usr/local/lib/dbanon . && dbanon install URL",
        "dbanon install URL",
        "sudo python3.11 -m pip install --target /usr/local/lib/dbanon ./dbanon-0.3.0-*.whl",
        "`pip install .` takes dbanon from a checkout",
        "pip install numpy  # beside dbanon",
        "pip install '/src/dbanon[all]'",
        "'^dbanon[.]entries'",
        "pip install -r dbanon.txt",
    ],
)
def test_other_lines_are_left_alone(text: str) -> None:
    assert registry_lines(text) == []
