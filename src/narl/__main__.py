"""Entry point of `python -m narl`: the command line."""

import sys

from narl.cli import main

if __name__ == "__main__":
    sys.exit(main())
