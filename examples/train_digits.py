"""Train a small CNN on scikit-learn's digits on a TensorDash core, with two more lines than in plain PyTorch.

python examples/train_digits.py              # on the emulator
python examples/train_digits.py verilator    # two steps on the emitted Verilog
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

import tensordash_runtime as tr

backend = sys.argv[1] if len(sys.argv) > 1 else "emulator"
steps = 96 if backend == "emulator" else 2
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(576, 10)
)
digits = load_digits()
images, labels = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1), torch.tensor(digits.target)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)  # This keeps small gradients in the range of fp16.

device = tr.Device("core", backend)
with tr.offload(device, model=model) as run:
    for batch in torch.randperm(len(labels)).split(16)[:steps]:
        with torch.autocast("cpu", torch.float16):
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
print(f"loss of the last batch: {loss.item():.3f}")
print(run)
