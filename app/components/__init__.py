"""User-interface components of the pages."""
