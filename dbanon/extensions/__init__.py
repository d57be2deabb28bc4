"""Extensions: parts of dbanon that the core does without. ``data.extension`` finds them by name."""
