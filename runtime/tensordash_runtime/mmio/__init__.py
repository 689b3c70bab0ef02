"""Use of a real core, or of a simulated one in another process, through its registers and its memory."""
