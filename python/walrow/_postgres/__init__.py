"""Uses connections to servers. Knows no log."""
