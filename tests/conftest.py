"""Settings for all tests."""

from __future__ import annotations

import hypothesis

# A slow machine must not fail a test.
hypothesis.settings.register_profile("walrow", deadline=None, derandomize=True)
hypothesis.settings.load_profile("walrow")
