"""The tile: processing elements, control, counters, and the drain of results."""
