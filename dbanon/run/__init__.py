"""Run a job, from the first check to the report, and answer later questions about its release."""
