"""Workspace folder with datasets, runs and the example, shared safely by the CLI, the trainer and the app."""

from crlc.workspace.workspace import RelinkReport, Workspace, get_default_workspace

__all__ = ["RelinkReport", "Workspace", "get_default_workspace"]
