"""Turn classes into a release, and report on it."""
