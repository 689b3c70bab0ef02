"""What is claimed, one file per component."""

from . import (
    accumulator,
    axi_stream,
    counters,
    drain,
    flags,
    initial_store,
    multiplier,
    operand_mux,
    output_buffer,
    rounder,
    scheduler,
    snapshot,
    staging_buffer,
    staging_ring,
    tile,
    tile_control,
    transposer,
)

__all__ = ["PROOFS"]

PROOFS = (
    scheduler.PROOF,
    operand_mux.PROOF,
    staging_buffer.PROOF,
    staging_ring.PROOF,
    multiplier.PROOF,
    accumulator.PROOF,
    rounder.PROOF,
    drain.PROOF,
    output_buffer.PROOF,
    initial_store.PROOF,
    counters.PROOF,
    flags.PROOF,
    snapshot.PROOF,
    tile_control.PROOF,
    tile.PROOF,
    axi_stream.PROOF,
    transposer.PROOF,
)
"""Every proof, in the order of the dataflow; of a tile, what solvers answer sooner comes first."""
