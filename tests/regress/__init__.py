"""PostgreSQL's own regression suite, received: each table against its state."""
