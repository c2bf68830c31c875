"""
Who confuses with whom: the duel matrix
=======================================

Each duel is a classifier of its own, and some are harder than others. The duel matrix shows, on
points that were not used to fit, how often the true label loses its duel with every other label.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from duelrank import DuelRanker
from duelrank.plotting import DuelMatrixDisplay
from duelrank.posteriors import diagnose

# %%
# The data are made up: parcels of eight kinds, by their length, width and height in cm and their
# weight in kg.

typical = {
    "book": (25, 18, 4, 0.8),
    "box": (40, 30, 25, 6),
    "crate": (60, 45, 40, 18),
    "large letter": (33, 24, 2, 0.4),
    "letter": (23, 15, 0.6, 0.05),
    "packet": (30, 22, 10, 1.5),
    "postcard": (15, 10.5, 0.1, 0.01),
    "tube": (70, 9, 9, 1),
}
rng = np.random.default_rng(0)
y = rng.choice(list(typical), size=3000)
X = np.log([typical[kind] for kind in y]) + rng.normal(scale=0.4, size=(3000, 4))
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
ranker = DuelRanker(random_state=0).fit(X_train, y_train)

# %%
# A row is a true label, and a column is the label that wins instead. The matrix need not be
# symmetric.

display = DuelMatrixDisplay.from_estimator(ranker, X_test, y_test)

# %%
# `duelrank.posteriors.diagnose` reports one number for every pair, and how close each duel is to a
# coin flip. If labels are sorted, those that are confused become neighbours.

diagnosis = diagnose(ranker, X_test, y_test)
display = DuelMatrixDisplay.from_diagnosis(diagnosis, name="parcels", sort_labels=True)
plt.show()
