"""Use a core in hardware, or a simulated core in another process, through its registers and memory."""
