"""The report: one self-contained HTML page about a fitted ranker and a table of points.

The page holds the data and the model at a glance, the top-k curve, the hardest label pairs, the
noise diagnosis, the cycles and how they were resolved, and a browser of individual points; for a
`Shortlister`, also how long its lists are and how often they hold the right label; and, if it was
checked, whether the rows are like those of training. It loads nothing: figures are inline SVG, and
the page holds the points as bytes.

The path from a model to a page, with the file that walks each step:

- `_facts`: the tournaments of all rows become counts (*facts*), batch by batch;
- `_points`: the tournaments of the rows that can be browsed become bytes, as few as possible;
- `_lists`: the lists of a `Shortlister` become counts, bytes and a section;
- `_drift`: what differs from the training rows becomes a section;
- `_words`: the texts of these rows become parts, with the words marked that spoke;
- `_figures`, `_markup`, `_sections`, `_hardness`: facts become SVG and HTML; `_rules` has the
  sentences about aggregations and ties;
- `_text`: labels and names of the user become text that a browser never reads as markup;
- `_report`: all of it becomes one file, written completely or not at all. ``page.html``,
  ``page.css`` and ``page.js`` are the page without its contents.
"""

from duelrank.report._report import render_report, write_report

# For other rooms: the sentences about aggregations and ties.
from duelrank.report._rules import RANKED_BY as RANKED_BY
from duelrank.report._rules import TIES_BY as TIES_BY

__all__ = ["render_report", "write_report"]
