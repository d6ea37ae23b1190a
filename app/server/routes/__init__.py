"""HTTP routes that serve images, galleries, maps, exports and lists."""
