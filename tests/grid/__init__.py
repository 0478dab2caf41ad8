"""Every type on a live server: edge cases, random values, and the expected results.

`printing` and `rendering` write PostgreSQL's text of a value from the Arrow value alone,
without the server. A decoded value is right if this text is the server's.
"""
