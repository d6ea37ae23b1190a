"""Images in: sources, decoding, the manifest, the pixel store and the import that fills them."""
