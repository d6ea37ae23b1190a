"""Two-dimensional maps of features: PCA, UMAP and t-SNE."""
