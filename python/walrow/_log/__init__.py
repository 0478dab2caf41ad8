"""Reads logs and changes them. Knows no server."""
