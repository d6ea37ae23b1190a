"""CRLC: clustering images nobody has labelled, by maximising mutual information across views."""

__version__ = "0.1.0"
