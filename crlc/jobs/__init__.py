"""Background jobs: the queue of training jobs, and the thread that starts, watches and stops their processes."""

from crlc.jobs.job import Job
from crlc.jobs.queue import JobQueue

__all__ = ["Job", "JobQueue"]
