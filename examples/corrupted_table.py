"""
A matrix with wrong and missing entries, and new rows
=====================================================

Fit a matrix with wrong and missing entries, then clean new rows with the model.
"""

from pathlib import Path

import numpy as np

from discrepant import RobustPCA
from discrepant.core.plotting import plot_decomposition
from discrepant.paper.synthetic import corrupted_matrix, relative_error

problem = corrupted_matrix((200, 80), rank=3, fraction=0.1, missing=0.1, random_state=0)
train, new = problem.observed[:150], problem.observed[150:]

pca = RobustPCA(random_state=0).fit(train)
print(f"rank {pca.rank_}; {pca.certificate_}")
print(
    f"error of the table: {relative_error(pca.low_rank_, problem.low_rank[:150]):.1e}"
)

# New rows are as corrupted and as incomplete as the training rows.
cleaned = pca.inverse_transform(pca.transform(new))
print(f"error of new rows:  {relative_error(cleaned, problem.low_rank[150:]):.1e}")

picture = Path("corrupted_table.png")
sparse = np.where(np.isnan(new), 0, new - cleaned)
plot_decomposition(new, cleaned, sparse, problem.low_rank[150:]).savefig(picture)
print(f"picture: {picture}")
