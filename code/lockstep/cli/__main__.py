"""`python -m lockstep.cli`."""

import sys

from lockstep.cli import main

sys.exit(main())
