"""Pieces of pages that several views use."""
