"""Lower bounds: what no partition into classes of k or more can lose less than."""
