"""A run's result to take away: tables, folders of links, a page with the map. Models: `crlc.training.model_file`."""
