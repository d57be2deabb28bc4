"""Classes into what is released, and what is said about it."""
