"""Inputs of a tile: AXI4-Stream, feeders, the transposer."""
