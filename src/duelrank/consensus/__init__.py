"""Consensus: one ranking that stands for many.

A *group* is n rankings of the same K labels, (n, K) ranks; arrays hold g groups, (g, n, K), and
every group has a consensus of its own. Rankings may be partial, tied and weighted, as everywhere in
`duelrank.feedback`: the lower of two ranks wins a duel, and ties and NaN say nothing about it.
``won[a, b]`` is the weight of the rankings that place a ahead of b.

- `borda`: by the share of duels won, the mean rank where every label is placed;
- `copeland`: by the number of labels that a majority places behind;
- `kemeny`: the ranking that contradicts the fewest of the duels, the median for Kendall's distance;
- `plackett_luce`: weights of the labels under which the rankings are most probable.

A consensus has no ties. Labels that the rankings leave tied go by an order of the labels that is
drawn from `random_state`, one for all groups, and never by their index.

>>> ranks = [[1, 2, 3], [1, 3, 2], [2, 3, 1]]
>>> borda(ranks)
array([1, 3, 2])
>>> kemeny([ranks, [[2, 1, 3], [3, 1, 2], [3, 2, 1]]])
array([[1, 3, 2],
       [3, 1, 2]])
"""

from duelrank.consensus._medians import borda, copeland, kemeny
from duelrank.consensus._plackett_luce import plackett_luce

__all__ = ["borda", "copeland", "kemeny", "plackett_luce"]

# For other rooms: kernels on plain arrays that check nothing.
from duelrank.consensus._groups import duels_won_by_cell as duels_won_by_cell
from duelrank.consensus._groups import duels_won_by_group as duels_won_by_group
from duelrank.consensus._medians import MEDIANS as MEDIANS
from duelrank.consensus._plackett_luce import early_ties as early_ties
from duelrank.consensus._plackett_luce import plackett_luce_weights as plackett_luce_weights
