"""``python -m duelrank`` is the command ``duelrank``."""

from duelrank.cli import main

if __name__ == "__main__":
    main()
