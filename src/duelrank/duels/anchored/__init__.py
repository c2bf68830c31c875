"""Anchored duels: scores that all duels share, and corrections of each duel's own.

The margin of a duel (k, l) is u_l(x) − u_k(x) + δ_kl(x). docs/anchored.md explains the model. These
are the files, roughly in the order in which a fit goes through them:

- `_engine` (`AnchoredDuels`) and `_cv` (`AnchoredDuelsCV`): what users see;
- `_fit`: scores first, then corrections;
- `_luce`: what rows say about scores, as choices, with the loss and its derivatives;
- `_points`: the rows as a linear map; `_solver`: the solver of the scores;
- `_rivals`: the duels that are corrected;
- `_corrections`: these as coefficients of X. `duelrank.duels.logistic` solves them;
- `_wins`: how many duels every label wins.
"""

from duelrank.duels.anchored._cv import AnchoredDuelsCV
from duelrank.duels.anchored._engine import AnchoredDuels

__all__ = ["AnchoredDuels", "AnchoredDuelsCV"]
