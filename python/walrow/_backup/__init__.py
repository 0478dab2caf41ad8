"""Physical backups: WAL as files. Public as `walrow.backup`."""
