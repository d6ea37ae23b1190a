"""Datasets: sources of images, decoding, the manifest, the pixel store, and the import that fills them."""
