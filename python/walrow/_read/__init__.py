"""Streams as batches, frames and messages; schemas and surveys."""
