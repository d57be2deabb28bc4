"""Lower bounds: the minimum information loss of any partition into classes of k or more."""
