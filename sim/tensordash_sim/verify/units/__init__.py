"""cocotb benches of the units of the core: each module is loaded by a simulator, not imported by users."""
