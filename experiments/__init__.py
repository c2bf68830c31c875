"""The experiments of the paper, one file per figure or table, and some beyond it.

Clémençon & Vogel, *A Multiclass Classification Approach to Label Ranking* (AISTATS 2020). Every
file has two functions: ``compute`` writes raw numbers to ``results/NAME.csv``, and their settings,
versions and machine to ``results/NAME.json``; ``draw`` draws the figure from these files.

Run ``python -m experiments`` for all of them, or name some: ``python -m experiments table_1``.
"""
