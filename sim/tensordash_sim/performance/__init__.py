"""Speedup, traffic and energy of complete training steps: a chip of many tiles, a planner, a design-space search."""
