"""
Do the probabilities mean what they say?
========================================

If the top label has a probability of 80 %, it should be the true label of four points in five. A
reliability diagram compares probabilities and frequencies, for posteriors or for duels.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from duelrank import DuelRanker
from duelrank.plotting import ReliabilityDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
# With few components the digits are hard to tell apart, so there are uncertain cases.
duels = make_pipeline(PCA(6, random_state=0), DuelRanker(random_state=0)).fit(X_train, y_train)
naive_bayes = GaussianNB().fit(X_train, y_train)

# %%
# The probability of the top label. Above the diagonal the probabilities are too low, below it they
# are too high. Vertical lines are 95 % confidence intervals: bins with few points (see the counts)
# say little.

display = ReliabilityDisplay.from_estimator(duels, X_test, y_test, name="duels")
display = ReliabilityDisplay.from_estimator(
    naive_bayes, X_test, y_test, name="naive Bayes", ax=display.ax_
)

# %%
# The duels themselves. Every duel has a favourite, whose probability is at least one half.

display = ReliabilityDisplay.from_estimator(duels, X_test, y_test, of="duels", name="duels")
plt.show()
