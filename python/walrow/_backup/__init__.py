"""Base backups of a server, and their manifests."""
