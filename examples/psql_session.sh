#!/bin/sh
# After `make setup`: a throw-away server, dbanon installed in it, and a psql session.
set -eu
cd "$(dirname "$0")/.."
# -I: what is installed, whatever the environment says.
exec "${PYTHON:-.venv/bin/python}" -I -m examples.psql_session
