"""``python -m gradops``: the command line."""

import sys

from gradops.cli import main

if __name__ == "__main__":
    sys.exit(main())
