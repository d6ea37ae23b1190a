"""The scikit-learn contract: an estimator with `fit` and `labels_`."""
