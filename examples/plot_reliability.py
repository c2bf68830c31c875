"""
Do the probabilities mean what they say?
========================================

Of the points whose top label has a probability of 80 %, four in five should have that label. A
reliability diagram compares both, for the posteriors, or for the duels from which they come.
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
# Few components leave the digits hard to tell apart, so that there is something to be unsure of.
duels = make_pipeline(PCA(6, random_state=0), DuelRanker(random_state=0)).fit(X_train, y_train)
naive_bayes = GaussianNB().fit(X_train, y_train)

# %%
# The probability of the top label. Curves above the diagonal are too modest, curves below it too
# sure. Vertical lines are 95 % confidence intervals: bins with few points, see the counts, say
# little.

display = ReliabilityDisplay.from_estimator(duels, X_test, y_test, name="duels")
display = ReliabilityDisplay.from_estimator(
    naive_bayes, X_test, y_test, name="naive Bayes", ax=display.ax_
)

# %%
# The duels themselves. Every duel has a favourite, whose probability is at least one half.

display = ReliabilityDisplay.from_estimator(duels, X_test, y_test, of="duels", name="duels")
plt.show()
