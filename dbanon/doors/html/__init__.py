"""The report as one self-contained page: no script, no request, nothing of a single row."""
