"""Programs of a core drawn at random, legal and illegal, and what a core must make of them."""
