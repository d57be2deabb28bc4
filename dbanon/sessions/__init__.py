"""What a session on a database is, whichever it is: names, statements, and what all share."""
