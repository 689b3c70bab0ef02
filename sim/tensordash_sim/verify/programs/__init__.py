"""Random legal and illegal programs of a core, and their expected outcomes."""
