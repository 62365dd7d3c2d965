"""
Wrong rows and wrong entries of a table
=======================================

In the table of 178 wines, 9 rows are mixed from other wines and one cell in fifty is
wrong. `discrepant.decompose` takes low rank, rows and entries; its score ranks the
rows. An isolation forest splits one column at a time and hardly sees mixed rows.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score, roc_curve

from discrepant import decompose
from discrepant.structures import Entries, Rows, Whole

rng = np.random.default_rng(0)
table = load_wine().data
spread = np.subtract(*np.quantile(table, (0.75, 0.25), axis=0))
table = (table - np.median(table, axis=0)) / spread
data, wrong = table.copy(), np.zeros(len(table), bool)
wrong[rng.choice(len(table), 9, replace=False)] = True
for j in range(data.shape[1]):
    data[wrong, j] = rng.choice(table[:, j], wrong.sum())
cells = rng.random(data.shape) < 0.02
data[cells] += 10 * rng.standard_normal(cells.sum())

# %%
# The score of a row is 1 if the row is in use; below 1 it ranks the others. Real tables
# are noisy, so `decompose` warns that the parts themselves may be wrong. The ranking of
# the rows does not need them.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    result = decompose(data, [Whole(), Rows(), Entries()], max_iter=500)
scores = {
    "decompose: score of rows": result.score("rows"),
    "IsolationForest": -IsolationForest(random_state=0).fit(data).score_samples(data),
}

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for name, score in scores.items():
    area = roc_auc_score(wrong, score)
    print(f"{name}: area under the ROC curve {area:.2f}")
    axes[1].plot(*roc_curve(wrong, score)[:2], label=f"{name} ({area:.2f})")
row_scores = result.score("rows")
axes[0].plot(
    np.flatnonzero(~wrong), row_scores[~wrong], ".", color="grey", label="right"
)
axes[0].plot(np.flatnonzero(wrong), row_scores[wrong], "o", label="mixed from others")
axes[0].set(xlabel="row", ylabel="score", title="score of each row")
axes[1].set(
    xlabel="fraction of right rows ranked above",
    ylabel="fraction of wrong rows",
    title="ROC curves",
)
for ax in axes:
    ax.legend()
figure.savefig("wrong_rows.png")
