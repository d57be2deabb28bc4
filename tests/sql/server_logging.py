"""Settings that make a server log values, and a control which checks that they work."""

from __future__ import annotations

import struct
from typing import Any

import psycopg

from tests.postgres_server import Server

ALL_LOGGING = (
    "LOAD 'auto_explain'",
    "SET auto_explain.log_min_duration = 0",
    "SET auto_explain.log_nested_statements = on",
    "SET auto_explain.log_analyze = on",
    "SET auto_explain.log_verbose = on",
    "SET auto_explain.log_triggers = on",
    "SET auto_explain.log_settings = on",
    "SET debug_print_parse = on",
    "SET debug_print_rewritten = on",
    "SET debug_print_plan = on",
    "SET log_statement = 'all'",
    "SET log_parameter_max_length = -1",
    "SET log_duration = on",
    "SET log_min_duration_statement = 0",
    "SET log_min_error_statement = 'debug5'",
    "SET log_error_verbosity = 'verbose'",
    "SET log_lock_waits = on",
    # Sorts and hashes spill to files; each file is logged with its statement and context.
    "SET log_temp_files = 0",
    "SET log_min_messages = 'debug1'",
)

# Concatenated inside the block, so that only a log of nested statements has it in one piece.
_NESTED = """DO $$ BEGIN
  EXECUTE format('SELECT %L, 7654321, 7654321.5::float8', 'control ' || 'nested');
END $$"""
_MARKERS = ("control literal", "control parameter", "control nested")
_PRINTED = (b"control nested", struct.pack("<i", 7654321), struct.pack("<d", 7654321.5))


def printed_bytes(value: bytes) -> str:
    """The bytes of a constant as the server prints them in a plan, without line breaks."""
    return " " + " ".join(str(byte - 256 if byte > 127 else byte) for byte in value) + " "


def unwrap(log: str) -> str:
    """The log with one space for each line break, which the server inserts even inside
    constants.
    """
    return " ".join(log.split())


def require_values_logged(connection: psycopg.Connection[Any], server: Server) -> None:
    """Fail unless the server logs the values of this session's statements, including nested ones.

    Tests that expect no value in the log search for the same forms as this control.
    """
    start = server.log_size()
    connection.execute("SELECT 'control literal', %s::text", ["control parameter"])
    connection.execute(_NESTED.encode())
    log = unwrap(server.log_text(start))
    missing = [value for value in _MARKERS if value not in log]
    missing += [str(value) for value in _PRINTED if printed_bytes(value) not in log]
    assert not missing, f"the server's log does not show {missing}: it proves nothing"
