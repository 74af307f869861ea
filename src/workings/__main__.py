"""`python -m workings` is the command line."""

import sys

from workings.cli import main

sys.exit(main())
