"""Program folders: programs of a core, their tensors, and the host calls between them."""
