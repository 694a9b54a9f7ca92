"""Loaded by pytest for each change: hypothesis need not reduce an example, since one failure is enough."""

from hypothesis import Phase, settings

settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate], deadline=None, database=None)
settings.load_profile("mutants")
