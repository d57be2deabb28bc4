"""Where requests come from: Python, the command line, SQL."""
