"""The `tensordash` command."""
