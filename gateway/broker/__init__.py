"""Histories and their publications, between processes."""
