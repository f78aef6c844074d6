"""The contract suite that every plug-in passes: behind ``dpeval check``, and for a plug-in's own tests.

In a test of your own::

    from dpeval.testing import check_plugin
    def test_contract():
        assert check_plugin(MyDefense()).passed
"""

from __future__ import annotations

from dpeval.testing.suite import Outcome, check_plugin, check_target

__all__ = ["Outcome", "check_plugin", "check_target"]
