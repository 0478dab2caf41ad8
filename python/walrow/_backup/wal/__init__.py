"""WAL as files: received, named and made durable as on the server."""
