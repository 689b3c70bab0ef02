"""cocotb benches of the core's units; a simulator loads each module, users do not import them."""
