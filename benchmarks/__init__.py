"""Seconds, memory and loss side by side. Each module has ``run(quick) -> Markdown``."""
