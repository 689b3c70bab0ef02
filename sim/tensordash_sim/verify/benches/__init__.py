"""cocotb benches: each module is loaded by a simulator, not imported by users."""
