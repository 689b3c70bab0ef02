"""From components to the files of a configuration: Verilog and its companions."""
