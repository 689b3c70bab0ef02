"""Layers to programs of a core: shapes, tilings, what is loaded and multiplied when, descriptors and memory."""
