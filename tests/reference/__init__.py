"""The same again, simple and slow: what kernels and methods are compared with."""
