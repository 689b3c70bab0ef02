"""What every test is run with."""

import os
import tempfile

# Nothing that a user fetched or computed before decides a test. All workers share the folder of the first process.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _cache = tempfile.TemporaryDirectory(prefix="tensordash-cache-")
    os.environ["XDG_CACHE_HOME"] = _cache.name
