"""Measure seconds, memory and loss. Each module has ``run(quick) -> Markdown``."""
