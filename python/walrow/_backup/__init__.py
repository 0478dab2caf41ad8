"""Physical backups: base backups, and WAL as files."""
