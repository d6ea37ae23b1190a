"""Export writers: tables, one folder per cluster, and the map as a web page."""
