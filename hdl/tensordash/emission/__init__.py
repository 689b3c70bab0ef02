"""Emission of a configuration's files: Verilog and its companions."""
