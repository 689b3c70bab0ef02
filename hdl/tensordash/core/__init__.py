"""The core: registers, command queue, sequencer, multiply control, output unit, and all of it together."""
