"""Privacy arithmetic: mechanisms, accountants, and the claims that follow from them.

>>> from dpeval.privacy.gaussian import analytic_gaussian_sigma
>>> round(analytic_gaussian_sigma(1.0, 1e-5), 3)
3.731
"""
