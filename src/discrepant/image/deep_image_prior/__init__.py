"""The paper's image method: a convolutional network parameterises the signal."""
