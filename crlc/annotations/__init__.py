"""Labels, exclusions and cluster edits of a dataset: the log on disk and the state it leads to."""
