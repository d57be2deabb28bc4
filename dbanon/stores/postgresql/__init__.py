"""PostgreSQL, from outside and from inside a backend."""
