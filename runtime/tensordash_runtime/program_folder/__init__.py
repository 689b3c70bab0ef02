"""Program folders: programs of a core, the tensors that they share, and the host's work between them."""
