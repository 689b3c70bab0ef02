"""The core: registers, command queue, sequencer, multiply control, output unit, and the core that connects them."""
