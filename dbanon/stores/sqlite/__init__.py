"""SQLite as source and target."""
