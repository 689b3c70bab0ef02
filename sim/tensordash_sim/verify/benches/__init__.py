"""cocotb benches; a simulator loads each module, users do not import them."""
