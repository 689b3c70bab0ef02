"""Which pair each lane takes: staging, flags of zeros, schedulers, operand muxes."""
