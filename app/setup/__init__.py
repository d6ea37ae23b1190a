"""Setup of the environment that the app runs in; standard library only, because no requirement is installed yet."""
