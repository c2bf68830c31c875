"""The campaign: inputs that nobody would write, in processes that may die of them.

Run ``python -m fuzz`` for all kinds, or name some. A *case* is one input, determined by its kind,
a seed and a number; a *find* is a case after which something happened that is not documented: a
crash, a hang, too much memory, another exception, a warning of numpy, a certificate that is wrong.

- `cases`: what a case, a find and a kind are;
- `workers`: the processes that run cases, with limits of memory, file size and time;
- `campaign`: hands numbers to workers, counts what they answer, writes finds down;
- `models` (with `archives`, `documents`, `arrays`, `strangers`): altered model files are loaded,
  and rank;
- `tables` (with `commands`): strange tables are given to the command;
- `checkpoints`: fits that were killed go on from files that may have been altered;
- `numbers` (with `objectives`): extreme numbers, and the objective against the best one known;
- `threads`: fits that overlap in threads, with errors and forks among them.

It needs `fork` and the limits of Linux, and is not in the wheel.
"""
