"""Tests of the facade: capability, receipts, serving, threads, subscriptions."""
