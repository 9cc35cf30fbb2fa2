"""`python -m parley`."""

import sys

from parley.faces.cli import main

sys.exit(main())
