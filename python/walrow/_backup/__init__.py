"""Physical backups. Public as `walrow.backup`."""
