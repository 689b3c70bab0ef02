"""Memories of the core: the buffer of groups, stream buffers, and their ports."""
