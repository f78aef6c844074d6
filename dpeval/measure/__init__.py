"""What an attack's answers are worth: metrics, intervals, baselines, controls and lower bounds on ε.

Attacks never come here; the core does, with the labels that it alone holds. Every measure is a pure function of arrays
joined by record id, and answers with :class:`~dpeval.types.Estimate` or :class:`~dpeval.types.Undefined`.
"""
