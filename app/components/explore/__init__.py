"""Parts of the Explore page: filters, the selection, and the map with its progress."""
