"""How operands reach a tile: AXI4-Stream, feeders, the transposer."""
