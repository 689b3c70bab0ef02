"""The compiler of a core: from layers to descriptors, and tensors in memory. `pipeline` lists its stages."""
