"""Scripts for who runs a database with releases."""
