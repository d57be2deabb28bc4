#!/bin/sh
# After `make setup`: a throw-away server, dbanon installed in it, and a psql session.
set -eu
cd "$(dirname "$0")/.."
exec "${PYTHON:-.venv/bin/python}" -m examples.psql_session
