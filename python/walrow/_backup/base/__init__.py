"""Base backups: one stream from the server, checked as it arrives, and its files."""
