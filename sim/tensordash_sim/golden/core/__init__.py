"""The golden core: the results of programs, descriptor by descriptor, as docs/core.md defines them.

`golden_core` executes a program. `legal` rejects illegal descriptors, `moves` executes loads and stores, `sums` adds
partial sums and biases, and `results` applies ReLU and rounds. `effects` lists a descriptor's reads and writes.
"""
