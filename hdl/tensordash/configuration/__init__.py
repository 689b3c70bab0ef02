"""What a tile is: its configuration, number formats, connectivity and presets. Imports no Amaranth."""
