"""``python -m duelrank.cli``."""

from duelrank.cli import main

main()
