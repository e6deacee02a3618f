"""Trees and sorted blocks: isotonic fits, Venn-Abers predictors, ranks."""
