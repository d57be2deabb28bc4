"""Sessions: transactions on a database, with the SQL and the names that all databases share."""
