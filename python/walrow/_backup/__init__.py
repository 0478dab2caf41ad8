"""Physical backups: base backups with their manifests, and WAL as files."""
