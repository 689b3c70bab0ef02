"""The printer of Verilog: a component's statements, as Amaranth keeps them, on a page as a person writes them."""
