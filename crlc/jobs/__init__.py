"""Background jobs: the thread that starts, watches and stops training processes."""

from crlc.jobs.job import Job
from crlc.jobs.metrics_follower import MetricsFollower, follower_of
from crlc.jobs.queue import JobQueue

__all__ = ["Job", "JobQueue", "MetricsFollower", "follower_of"]
