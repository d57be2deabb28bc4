"""Warnings about results, which Python can turn into errors."""

from __future__ import annotations


class PrivacyWarning(UserWarning):
    """A result reveals more than its readers may think."""


class KeptColumnTells(PrivacyWarning):
    """A column released as it is distinguishes rows, or reveals what a quasi-identifier was."""


class KeptColumnLinks(PrivacyWarning):
    """A column released as it is singles out rows of classes, as a quasi-identifier would."""


class KeptColumnIdentifies(PrivacyWarning):
    """A column released as it is looks like names, addresses or person identifiers."""


class PseudonymsLink(PrivacyWarning):
    """Rows of one value can be linked by their pseudonym, in this release and in others."""


class PersonsBelowK(PrivacyWarning):
    """Classes hold fewer than k values of a column that looks like a person identifier."""


class HomogeneousClasses(PrivacyWarning):
    """All rows of a class share one value of a sensitive column that has no privacy model."""


class EntitySpellings(PrivacyWarning):
    """Values of the entity differ in white space or capitals alone: one person, counted twice."""


class ReleasesIntersect(PrivacyWarning):
    """The source was released before: classes of both releases can be intersected."""


class RowsNotAnonymous(PrivacyWarning):
    """The rows of this result are not k-anonymous: its guarantee holds for each attribute alone."""


class RowsLinkable(PrivacyWarning):
    """The rows are in the order of their originals: anyone who has these can pair every row."""


class WorkersNotPrivate(UserWarning):
    """Original records on the workers of a cluster, or between them, are not kept from others."""


class ColumnLost(UserWarning):
    """A quasi-identifier has lost everything: one label is released for all of its values."""


class CodesAveraged(UserWarning):
    """Numbers of a coded column were averaged: rows are released with codes that nobody has."""


class ColumnsRenamed(UserWarning):
    """Duplicate columns in a file were numbered, as was requested."""


class DaysAsNumbers(UserWarning):
    """A column of whole numbers holds days as yyyymmdd: numbers between two of them are no days."""


class CommitConfirmed(UserWarning):
    """The connection was lost or a signal came at COMMIT, but the transaction was committed."""


class NotTold(UserWarning):
    """A notice of how a job ended was not delivered, or what monitoring reads was not written."""


class ExportPending(UserWarning):
    """A file of a published release could not take its place, and waits under another name."""


class ReleaseNotNoted(UserWarning):
    """A chain's last release could not be noted next to its key, to detect restored backups."""


class ReleaseNotPublished(UserWarning):
    """A chain's last release counts as published, but its run ended before it was."""


class RulesOfAnotherTable(UserWarning):
    """Rules belong to another table that had this name before, or to one that was restored."""


class SchemaCreated(UserWarning):
    """The output's schema was missing, and was created; a wrong spelling creates one, too."""


class TablesLeft(UserWarning):
    """Tables of earlier releases could not be dropped after a release was published."""


class NotDifferentiallyPrivate(UserWarning):
    """This method's noise is as published: its proof is wrong, and nothing is guaranteed."""
