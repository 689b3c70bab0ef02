"""Units that move groups: AXI4, loads and stores, compression, and layouts."""
