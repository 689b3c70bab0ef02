"""The golden core, and what programs are made with: docs/core.md."""
