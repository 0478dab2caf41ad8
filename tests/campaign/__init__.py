"""A campaign: days of a user as lists of steps, each compared with PostgreSQL's own tables."""
