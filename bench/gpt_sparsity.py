"""Compare the losses of dense and of statically sparse training of the small GPT, on the same weights and batches.

python bench/gpt_sparsity.py [--steps 240] [--sparsity 0.875]
"""

import numpy as np

from common import argument_parser
from tensordash_sim.networks import load

MEAN_COUNT = 10
"""Number of printed means, each of equally many steps."""


def main(steps: int, sparsity: float) -> None:
    """Print the mean loss of each tenth of the steps."""
    runs = {"dense": load("gpt", sparsity=0.0), f"{sparsity:.1%} zeros": load("gpt", sparsity=sparsity)}
    steps_of_mean = steps // MEAN_COUNT
    print(f"small GPT, seed 0, {runs['dense'].conditions['data']}; nats per byte, means of {steps_of_mean} steps\n")
    ends = range(steps_of_mean, steps + 1, steps_of_mean)
    print(f"{'steps to':11}" + "".join(f"{end:7}" for end in ends))
    for name, run in runs.items():
        losses = np.array([run.step() for _ in range(steps_of_mean * MEAN_COUNT)])
        print(
            f"{name:11}" + "".join(f"{loss:7.2f}" for loss in losses.reshape(MEAN_COUNT, -1).mean(axis=1)), flush=True
        )


if __name__ == "__main__":
    parser = argument_parser(__doc__)
    parser.add_argument("--steps", type=int, default=240, help="a multiple of ten")
    parser.add_argument("--sparsity", type=float, default=0.875, help="share of zeros")
    options = parser.parse_args()
    main(options.steps, options.sparsity)
