"""The compiler of a core: lowers layers to descriptors and places tensors in memory. `pipeline` lists its stages."""
