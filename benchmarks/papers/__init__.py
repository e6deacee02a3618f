"""The tables of the papers, computed again with streamcal."""
