"""A job from its first check to its report, and what is asked of a release afterwards."""
