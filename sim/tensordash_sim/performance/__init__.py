"""Speedup, traffic and energy of whole training steps: many tiles, a planner, a search for shapes."""
