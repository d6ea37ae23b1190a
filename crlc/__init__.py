"""CRLC: clustering of unlabelled images by maximising mutual information across views."""

__version__ = "0.2.0"
