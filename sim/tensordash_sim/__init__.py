"""TensorDash in software: the golden model, cycle counts, traces and evaluation."""
