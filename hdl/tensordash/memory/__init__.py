"""Memories of the core: the buffer of groups, stream buffers, and the ports that lead to them."""
