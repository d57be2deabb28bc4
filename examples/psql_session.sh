#!/bin/sh
# After `make setup`: a throw-away server, dbanon installed in it, and a psql session.
set -eu
cd "$(dirname "$0")/.."
# -I: the installed package, not the sources here, which have no compiled core.
exec "${PYTHON:-.venv/bin/python}" -I -m examples.psql_session
