"""From operands to a result: multipliers, accumulators, rounding."""
