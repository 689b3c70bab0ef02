"""Storage on disk between runs, without any hardware."""
