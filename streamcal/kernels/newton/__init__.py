"""Logistic and softmax regressions, by Newton steps and by implicit steps."""
