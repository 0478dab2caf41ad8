"""The work of `apply_changes`, whichever engine writes the target.

Nothing here knows Spark or deltalake.
"""
