"""One module per page, each with a `show` function."""
