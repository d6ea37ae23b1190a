"""Pages of the app: one module with a `render` function per page, registered in `app.navigation`."""
