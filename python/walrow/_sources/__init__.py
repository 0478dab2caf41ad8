"""Opens the sources of a stream: files, logs, URLs, buffers, iterables of chunks."""
