"""The workbench: a page of this machine that leads from a table to a job file and its release."""
