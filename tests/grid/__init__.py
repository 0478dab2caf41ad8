"""Every type on a live server: its odd values, random ones, and how they must come out.

`printing` and `rendering` write PostgreSQL's text of a value once more, from the Arrow value
alone and without the server: what the decoder made of a value is right if that is what
the server prints.
"""
