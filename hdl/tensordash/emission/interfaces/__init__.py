"""Descriptions of a top's interface for other tools: SystemRDL, CMSIS-SVD, IP-XACT, and wrappers."""
