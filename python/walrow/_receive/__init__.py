"""Receives the changes of a server into a log."""
