"""Configuration of tiles and cores: parameters, number formats, connectivity and presets. Imports no Amaranth."""
