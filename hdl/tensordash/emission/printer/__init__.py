"""Printer of a component's Amaranth statements as Verilog in the style of handwritten code."""
