"""The command line: every capability without a browser."""
