"""
Who confuses with whom: the duel matrix
=======================================

Each duel is a classifier of its own, and some are harder than others. The duel matrix shows, on
points that were not used to fit, how often the true label loses its duel with every other label.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from duelrank import DuelRanker
from duelrank.plotting import DuelMatrixDisplay
from duelrank.posteriors import diagnose

X, y = load_digits(return_X_y=True)
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
display = DuelMatrixDisplay.from_diagnosis(diagnosis, name="digits", sort_labels=True)
plt.show()
