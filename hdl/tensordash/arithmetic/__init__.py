"""Arithmetic from operands to results: multipliers, accumulators, rounding."""
