"""PostgreSQL, through a client and inside a backend."""
