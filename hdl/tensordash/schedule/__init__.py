"""Selection of each lane's pair: staging, flags of zeros, schedulers, operand muxes."""
