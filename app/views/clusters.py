"""Clusters."""
def render(): pass
