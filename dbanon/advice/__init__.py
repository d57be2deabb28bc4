"""Advice: roles of columns, sets that make rows unique, and a recommended release."""
