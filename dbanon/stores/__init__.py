"""Stores: databases, files and data frames that runs read and write."""
