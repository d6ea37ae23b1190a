"""The web server: the ASGI app, its access control, its routes and the desktop window."""
