"""The tile: processing elements, control, counters, and the way of results out."""
