"""Descriptions of a top's interface in the formats of other tools: SystemRDL, CMSIS-SVD, IP-XACT, and wrappers."""
