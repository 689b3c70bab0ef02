"""What is claimed, one file per component."""

from . import (
    accumulator,
    axi_stream,
    command_queue,
    core_axi,
    core_axi_lite,
    counters,
    deflate,
    deflate_units,
    drain,
    flags,
    group_writer,
    inflate_units,
    initial_store,
    layout,
    load_bounds,
    multiplier,
    operand_mux,
    output_buffer,
    rounder,
    scheduler,
    snapshot,
    soft_reset,
    staging_buffer,
    staging_ring,
    store_bounds,
    stream_feed,
    tile,
    tile_control,
    tokens,
    transposer,
)

__all__ = ["CORE_PROOFS", "PROOFS"]

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
"""Every proof about a tile, in the order of the dataflow; of a tile, what solvers answer sooner comes first."""

CORE_PROOFS = (
    core_axi_lite.PROOF,
    core_axi.PROOF,
    deflate.PROOF,
    deflate_units.PROOF,
    inflate_units.PROOF,
    command_queue.PROOF,
    soft_reset.PROOF,
    tokens.PROOF,
    load_bounds.PROOF,
    store_bounds.PROOF,
    group_writer.PROOF,
    layout.PROOF,
    stream_feed.PROOF,
)
"""Every proof about a core around a tile."""
