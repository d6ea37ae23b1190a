"""Galleries of images and the dialog of one image."""
