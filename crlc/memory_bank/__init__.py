"""The memory bank form of the contrastive losses: what the network said of each image, and its update."""
