"""Record the operands of a training run; `tensordash simulate run.trace` then prints the speedup from their zeros."""

import torch
from sklearn.datasets import load_digits
from torch import nn

from tensordash_sim.trace import record

torch.manual_seed(0)
images, labels = map(torch.tensor, load_digits(return_X_y=True))
layers = nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.Flatten()
model = nn.Sequential(*layers, nn.Linear(288, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

with record("run.trace", model=model, every=10, overwrite=True):
    for batch in torch.randperm(len(images)).split(64):
        loss = nn.functional.cross_entropy(model(images[batch].float().reshape(-1, 1, 8, 8) / 16), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
