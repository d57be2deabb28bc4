"""Job files: what runs unattended, read, checked and run. pydantic and PyYAML stay in this room."""
