"""README from top to bottom: ``python -m tests.docs.readme`` runs it, and writes the actual output.

A comment before each block gives its kind:

``<!-- runnable -->``           Bash or Python, run in the order of the page, in one directory
``<!-- printed -->``            the output of the block before it
``<!-- psql: FIRST | LAST -->`` lines of examples/psql_session.out, from the one that starts with
                                FIRST to the one before that which starts with LAST
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from dbanon.kernels import _kernels

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "README.md"
SESSION = ROOT / "examples" / "psql_session.out"
BLOCK = re.compile(
    r"(<!-- (runnable|printed|psql)(?:: (.+?) \| (.+?))? -->\n```(\w+)\n)(.*?)(```)", re.S
)
# Readers see this warning, too: the example release has no privacy model.
_SEEN = 'ignore:Column "diagnosis" has one value'
PROGRAMS = {
    "python": (sys.executable, "-W", "error", "-W", _SEEN),
    "bash": ("bash", "-euo", "pipefail"),
}

# An editable install finds its own sources before it searches any path.
_SITE = """import sys
sys.meta_path[:] = [f for f in sys.meta_path if "dbanon" not in type(f).__module__]
"""


def clone(folder: Path) -> Path:
    """Copy the files that a commit of this tree would contain, and the compiled core."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    checkout = folder / "dbanon"
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, checkout / name)
    core = Path(_kernels.__file__)
    shutil.copy2(core, checkout / "dbanon" / "kernels" / core.name)
    return checkout


def run_page(text: str, checkout: Path) -> list[str]:
    """The output of each runnable block, run in a checkout."""
    site_folder = checkout.parent / "site"
    site_folder.mkdir()
    (site_folder / "sitecustomize.py").write_text(_SITE)
    scripts = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{site_folder}{os.pathsep}{checkout}",
        "COLUMNS": "100",
    }
    # The package is already built; everything else follows the Makefile.
    make = f'make() {{ command make VENV="{scripts.parent}"'
    make += f' -o "{scripts.parent}/.package" "$@"; }}\n'
    outputs = []
    for kind, language, code in ((b[2], b[5], b[6]) for b in BLOCK.finditer(text)):
        if kind != "runnable":
            continue
        script = make + code if language == "bash" else code
        done = subprocess.run(
            [*PROGRAMS[language], "-c", script],
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        outputs.append(done.stdout)
    return outputs


def session(first: str, last: str) -> str:
    """A part of the psql session."""
    lines = SESSION.read_text(encoding="utf-8").splitlines(keepends=True)
    start = next(index for index, line in enumerate(lines) if line.startswith(first))
    end = next(index for index, line in enumerate(lines) if line.startswith(last) and index > start)
    return "".join(lines[start:end]).rstrip("\n") + "\n"


def fill_page(text: str, outputs: list[str]) -> str:
    """The page with the actual output and the parts of the psql session."""
    left = iter(outputs)
    last = ""

    def fill(match: re.Match[str]) -> str:
        nonlocal last
        opening, kind, start, end, _, body, closing = match.groups()
        if kind == "runnable":
            last = next(left)
        elif kind == "psql":
            body = session(start, end)
        else:
            lines = [line.rstrip() for line in last.strip("\n").splitlines()]
            body = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"
        return opening + body + closing

    return BLOCK.sub(fill, text)


def mask(text: str) -> str:
    """A page's words without those that differ between runs."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "RELEASE", text)
    words = " ".join(text.split())
    return re.sub(r"\b(read|cluster|write|verify|digest|total) \d+\.\d+", r"\1 SECONDS", words)


def run_and_fill() -> tuple[str, str]:
    """The page, and the page with the output of a run."""
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="dbanon-readme-") as folder:
        return text, fill_page(text, run_page(text, clone(Path(folder))))


if __name__ == "__main__":
    PAGE.write_text(run_and_fill()[1], encoding="utf-8")
