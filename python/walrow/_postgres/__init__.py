"""What uses a connection to a server. Knows no log."""
