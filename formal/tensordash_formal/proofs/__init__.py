"""What is claimed, one file per component."""

from . import (
    axi_stream,
    counters,
    drain,
    exact_sum,
    exact_term,
    initial_store,
    multiplier,
    operand_mux,
    scheduler,
    staging_buffer,
    tile,
    tile_control,
    transposer,
)

__all__ = ["PROOFS"]

PROOFS = (
    scheduler.PROOF,
    operand_mux.PROOF,
    staging_buffer.PROOF,
    multiplier.PROOF,
    exact_term.PROOF,
    exact_sum.PROOF,
    drain.PROOF,
    initial_store.PROOF,
    counters.PROOF,
    tile.PROOF,
    tile_control.PROOF,
    axi_stream.PROOF,
    transposer.PROOF,
)
"""Every proof, in the order of the dataflow."""
