"""Any linear operator: y = A(X) + s in a few hundred applications of A and A*."""
