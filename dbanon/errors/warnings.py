"""What a result tells beyond its guarantee: warnings, which Python can make errors."""

from __future__ import annotations


class PrivacyWarning(UserWarning):
    """A result tells more than its readers may think."""


class KeptColumnTells(PrivacyWarning):
    """A column that is released as it is tells rows apart, or what a quasi-identifier was."""


class PersonsBelowK(PrivacyWarning):
    """Classes hold fewer than k values of a column that looks like a number of persons."""


class RowsNotAnonymous(PrivacyWarning):
    """The rows of this result are not k-anonymous: its guarantee holds for each attribute alone."""


class RowsLinkable(PrivacyWarning):
    """The rows of this result stand as their originals do: whoever has those pairs them all."""


class WorkersNotPrivate(UserWarning):
    """Original records on the workers of a cluster, or between them, are not kept from others."""


class ColumnLost(UserWarning):
    """A quasi-identifier is released with nothing left of it: one label for all of its values."""


class CommitConfirmed(UserWarning):
    """The connection was lost or a signal came at COMMIT, and it was committed all the same."""


class NotTold(UserWarning):
    """A notice of how a job ended was not delivered, or what monitoring reads was not written."""


class ExportPending(UserWarning):
    """A file of a published release could not get its place, and waits under another name."""


class ReleaseNotNoted(UserWarning):
    """A chain's last release could not be noted beside its key, where restored backups are noticed."""  # noqa: E501


class RulesOfAnotherTable(UserWarning):
    """Rules were declared of another table that had this name before, or of one that was restored."""  # noqa: E501


class TablesLeft(UserWarning):
    """Tables of earlier releases could not be dropped after a release was published."""


class NotDifferentiallyPrivate(UserWarning):
    """The noise of this method is as published; its proof does not hold, and nothing is guaranteed."""  # noqa: E501
