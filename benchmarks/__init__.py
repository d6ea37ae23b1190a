"""Benchmarks: one script per question, run as `python benchmarks/NAME.py`. Results are in RESULTS.md."""
