"""The workspace: everything CRLC Studio keeps on disk, shared safely by CLI, trainer and app."""

from crlc.workspace.workspace import RelinkReport, Workspace, default_workspace

__all__ = ["RelinkReport", "Workspace", "default_workspace"]
