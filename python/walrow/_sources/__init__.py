"""Where a stream is read from: files, logs, URLs, buffers, iterables of chunks."""
