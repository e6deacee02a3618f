"""Mixtures and bets: `Auto`, the adaptive methods of the papers, the change monitor."""
