"""`python -m narl`."""

import sys

from narl.cli import main

if __name__ == "__main__":
    sys.exit(main())
