"""What programs do on a core, descriptor by descriptor: docs/core.md."""
