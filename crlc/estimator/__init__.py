"""The scikit-learn contract: `CRLC(n_clusters=10).fit(images).labels_`."""

from crlc.estimator.crlc import CRLC

__all__ = ["CRLC"]
