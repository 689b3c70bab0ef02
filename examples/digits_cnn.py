"""Train a small CNN on scikit-learn's digits in mixed precision, without TensorDash.

The script starts from the weights in the file, if it exists, and writes the trained weights to it. The first step after
five epochs is the trace in the package (`tensordash_sim.trace.example_trace`):

    python examples/digits_cnn.py digits.pt
    tensordash trace examples/digits_cnn.py -o sim/tensordash_sim/data/digits_cnn.trace \
        --values --steps 1 --stop --overwrite -- digits.pt

With another processor or PyTorch version, sums may be rounded differently. Values and some zeros then differ.
"""

import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

EPOCHS, BATCH, TRAINED_ON = 5, 16, 1536


class CNN(nn.Module):
    """Two convolutions and two fully connected layers, with ReLUs between them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 16, 3)
        self.fc1 = nn.Linear(16 * 3 * 3, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return scores, (N, 10), of images, (N, 1, 8, 8)."""
        features = self.conv2(self.conv1(images).relu()).relu()
        return self.fc2(self.fc1(nn.functional.max_pool2d(features, 2).flatten(1)).relu())


torch.manual_seed(0)
model = CNN()
weights = Path(sys.argv[1] if len(sys.argv) > 1 else "digits.pt")
if weights.exists():
    model.load_state_dict(torch.load(weights))
digits = load_digits()
images = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
labels = torch.tensor(digits.target)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)  # This keeps small gradients in the range of fp16.

for epoch in range(EPOCHS):
    for batch in torch.randperm(TRAINED_ON).split(BATCH):
        with torch.autocast("cpu", torch.float16):
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    with torch.no_grad():
        right = model(images[TRAINED_ON:]).argmax(1) == labels[TRAINED_ON:]
    print(f"epoch {epoch}: loss {loss.item():.3f}, {right.float().mean().item():.1%} of unseen digits right")
torch.save(model.state_dict(), weights)
