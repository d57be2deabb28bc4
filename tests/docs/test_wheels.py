"""Wheels: cibuildwheel would build those on the installation page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.prerequisites import import_or_skip

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/install.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = ("cp311", "cp312", "cp313", "cp314")
SYSTEMS = {
    "linux": tuple(
        f"{libc}_{arch}" for libc in ("manylinux", "musllinux") for arch in ("x86_64", "aarch64")
    ),
    "macos": ("macosx_x86_64", "macosx_arm64"),
    "windows": (),
}
_CIBUILDWHEEL = (sys.executable, "-m", "cibuildwheel", "--print-build-identifiers")


@pytest.mark.parametrize("platform", SYSTEMS)
def test_built_wheels(platform: str) -> None:
    import_or_skip("cibuildwheel")
    archs = PROJECT["tool"]["cibuildwheel"].get(platform, {}).get("archs", ["AMD64"])
    # Ignore environment variables, which configure it, too.
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    listing = subprocess.run(
        [*_CIBUILDWHEEL, "--platform", platform, "--archs", ",".join(archs), str(ROOT)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert {*listing.stdout.split()} == {
        f"{python}-{system}" for python in PYTHONS for system in SYSTEMS[platform]
    }, listing.stderr


def test_the_page_says_so() -> None:
    settings = PROJECT["tool"]["cibuildwheel"]
    images = {value for name, value in settings["linux"].items() if name.endswith("-image")}
    assert images == {"manylinux_2_28", "musllinux_1_2"}
    for words in ("(glibc 2.28)", "(1.2)", "x86-64 and aarch64", "x86-64 and arm64"):
        assert words in " ".join(PAGE.split())
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    assert "CPython 3.11 to 3.14" in PAGE
    assert PROJECT["tool"]["scikit-build"]["wheel"]["py-api"] == "cp312"
    assert "(`cp312-abi3`)" in PAGE
    assert settings["macos"]["environment"]["MACOSX_DEPLOYMENT_TARGET"] == "11.0"
    assert "macOS 11 or newer" in re.sub(r"\s+", " ", PAGE)
