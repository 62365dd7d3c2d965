"""
Learning from labels of which 40% are wrong
===========================================

Train a classifier on labels of which 40% are wrong: three lines in a training loop.

A network that can memorise its training set also memorises wrong labels. With g∘g − h∘h
added to its prediction, that term fits the wrong labels instead (Liu, Zhu, Qu, You;
"Robust Training under Label Noise by Over-parameterization", ICML 2022).
"""

from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional

from discrepant.core.plotting import COLOURS, new_figure
from discrepant.image import Corruption

EPOCHS, BATCH, WRONG = 100, 64, 0.4
torch.set_num_threads(1)  # a network this small gains nothing from more

images, digits = load_digits(return_X_y=True)
train_x, test_x, train_y, test_y = train_test_split(
    images.astype(np.float32) / 16, digits, test_size=0.3, random_state=0
)
rng = np.random.default_rng(0)
wrong = rng.permutation(len(train_y)) < WRONG * len(train_y)
given = np.where(wrong, (train_y + rng.integers(1, 10, len(train_y))) % 10, train_y)
x, labels = torch.from_numpy(train_x), torch.from_numpy(given)
targets = functional.one_hot(labels, 10).float()


def train(robust):
    """Return the test accuracy after each epoch, and the corruption of the labels."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    corruption = Corruption(targets.shape, rate=10, start=1e-2)  # 1
    accuracies = []
    for _ in range(EPOCHS):
        for index in torch.randperm(len(x)).split(BATCH):
            predicted = model(x[index]).softmax(dim=1)
            if robust:
                predicted = predicted + corruption(index)  # 2
            likely = functional.normalize(predicted.clamp(min=1e-4), p=1, dim=1)
            loss = -(targets[index] * likely.log()).sum(dim=1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if robust:
                corruption.step()  # 3
        with torch.no_grad():
            predicted = model(torch.from_numpy(test_x)).argmax(dim=1).numpy()
        accuracies.append(float((predicted == test_y).mean()))
    return accuracies, corruption.value()


plain, _ = train(robust=False)
robust, corruption = train(robust=True)
suspects = (corruption.abs().amax(dim=1) > 0.5).numpy()
print(f"{wrong.mean():.0%} of {len(given)} labels are wrong")
for name, accuracy in (("cross-entropy", plain), ("with the corruption", robust)):
    print(f"test accuracy, {name}: {accuracy[-1]:.1%} (best {max(accuracy):.1%})")
print(f"wrong labels that are flagged: {suspects[wrong].mean():.1%}")
print(f"right labels that are flagged: {suspects[~wrong].mean():.1%}")

figure, ax = new_figure(size=(6.4, 4.0))
ax.plot(plain, color=COLOURS[1], label="cross-entropy")
ax.plot(robust, color=COLOURS[0], label="with g∘g − h∘h")
ax.set(xlabel="epoch", ylabel="test accuracy", title="digits, 40% of labels wrong")
ax.legend()
picture = Path("label_noise.png")
figure.savefig(picture)
print(f"picture: {picture}")
