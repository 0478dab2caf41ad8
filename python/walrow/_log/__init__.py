"""What is read from a log and changed in it. Knows no server."""
