"""Background jobs: the thread that starts, watches and stops training processes."""
