"""Use cases, each implemented once here and called by the CLI, the app and the estimator."""
