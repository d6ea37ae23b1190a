"""Nearest-neighbour search: exact, approximate (IVF), and the neighbour graph."""
