"""Clusters of a run after edits: numbers, names and colours."""
