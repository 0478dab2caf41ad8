"""What `apply_changes` does, whichever engine writes the target. Nothing here knows Spark or deltalake."""
