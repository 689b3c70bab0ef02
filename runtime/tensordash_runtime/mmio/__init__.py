"""A real core, or a simulated one in another process, through its registers and its memory."""
