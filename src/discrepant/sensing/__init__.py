"""Recovery through any linear operator: y = A(X) + s."""
