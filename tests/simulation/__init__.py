"""A receiver without a server, a disk and a clock: actors that do what these may do."""
