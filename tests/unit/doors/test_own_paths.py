"""The path that `dbanon install` gives a server to import from, without a `--python-path`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dbanon
from dbanon.doors import install, server_python
from dbanon.errors import InstallRefused, PythonNotUsable
from dbanon.kernels import _kernels
from dbanon.version import version

# Plain paths, as the server's Python is given them: no .pth file is read.
ASK = f"""
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from {install.__name__} import find_import_paths
print(json.dumps(find_import_paths()))
"""
IMPORT = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from dbanon import kernels
print(json.dumps(kernels.__file__))
"""


def plain(code: str, paths: list[str]) -> Any:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, json.dumps(paths)],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_plain_interpreter_imports_a_copy_from_them(tmp_path: Path) -> None:
    package = shutil.copytree(Path(dbanon.__file__).parent, tmp_path / "dbanon")
    core = Path(_kernels.__file__)
    shutil.copy2(core, package / "kernels" / core.name)
    packages = str(Path(np.__file__).parents[1])
    paths = plain(ASK, [str(tmp_path), packages])
    assert paths == [str(tmp_path), packages]
    assert plain(IMPORT, paths).startswith(str(package))


def test_an_editable_install_is_refused_before_anything_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_kernels, "__file__", str(tmp_path / "dbanon" / "kernels" / "core.so"))
    # No server listens on this port.
    with pytest.raises(PythonNotUsable, match="editable") as refused:
        install.install("postgresql://nobody@127.0.0.1:1/none")
    assert "--python-path" in str(refused.value.hint)


def test_a_plain_interpreter_imports_from_them_or_they_are_refused() -> None:
    """In the environment of the tests, whichever it is."""
    try:
        paths = install.find_import_paths()
    except PythonNotUsable:
        assert Path(_kernels.__file__).parents[1] != Path(dbanon.__file__).parent
        return
    assert plain(IMPORT, paths).startswith(paths[0])


def test_the_way_out_is_one_line_for_the_servers_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = "sudo python3.13 -m pip install --target /usr/local/lib/dbanon"
    # As recorded by pip: PEP 610.
    record = tmp_path / "dbanon-0.dist-info" / "direct_url.json"
    record.parent.mkdir()
    (record.parent / "METADATA").write_text("Metadata-Version: 2.1\nName: dbanon\nVersion: 0\n")
    monkeypatch.setattr(server_python, "distribution", lambda name: PathDistribution(record.parent))
    wheel = tmp_path / "a b.whl"
    wheel.touch()
    record.write_text(json.dumps({"url": wheel.as_uri()}))
    hint = server_python.install_hint("3.13")
    assert f"{command} '{wheel}' && " in hint
    assert "\n" not in hint
    # A wheel that is gone, one from elsewhere, and no record at all.
    without = f"{command} ./dbanon-{version()}-*.whl && "
    wheel.unlink()
    assert without in server_python.install_hint("3.13")
    record.write_text(json.dumps({"url": f"https://example.org{tmp_path}"}))
    assert without in server_python.install_hint("3.13")
    record.unlink()
    assert without in server_python.install_hint("3.13")


def test_a_checkout_is_quoted_and_an_old_python_refused() -> None:
    assert "/src/dbanon &&" in server_python.install_hint("3.11", "/src/dbanon")
    # It is pasted as root.
    assert "'/src/a b;c' &&" in server_python.install_hint("3.11", "/src/a b;c")
    too_old = server_python.install_hint("3.9")
    assert "pip install" not in too_old
    assert "--sql-only" in too_old


class _WithoutPython:
    """A connection to a server that has no PL/Python."""

    def execute(self, query: str, parameters: object = None) -> _WithoutPython:
        self.found = [("170002",)] if "server_version_num" in query else []
        assert "CREATE" not in query
        return self

    def fetchall(self) -> list[tuple[str]]:
        return self.found


def test_a_server_without_plpython_gets_a_hint_with_its_package() -> None:
    with pytest.raises(InstallRefused, match="plpython3u") as refused:
        server_python.require_python(_WithoutPython(), ["/usr/local/lib/dbanon"], [])
    assert "postgresql-plpython3-17" in str(refused.value.hint)
