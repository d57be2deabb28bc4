"""Warnings about results, which Python can turn into errors."""

from __future__ import annotations


class PrivacyWarning(UserWarning):
    """A result reveals more than its readers may think."""


class KeptColumnTells(PrivacyWarning):
    """A column released unchanged distinguishes rows, or reveals what a quasi-identifier was.

    It is nearly unique, or its value determines the original value of a quasi-identifier.
    """


class KeptColumnLinks(PrivacyWarning):
    """A column released unchanged singles out rows within classes, as a quasi-identifier would.

    It is another coding of a quasi-identifier, or identifies small groups such as households.
    """


class KeptColumnIdentifies(PrivacyWarning):
    """A column released unchanged looks like names, addresses or person identifiers."""


class PseudonymsLink(PrivacyWarning):
    """Rows of one value can be linked by their pseudonym, in this release and in others."""


class ShiftedDatesTell(PrivacyWarning):
    """Something in a release tells readers by how many days its dates are shifted."""


class PersonsBelowK(PrivacyWarning):
    """Classes hold fewer than k values of a column that looks like a person identifier."""


class HomogeneousClasses(PrivacyWarning):
    """All rows of a class share one value of a sensitive column that has no privacy model."""


class EntitySpellings(PrivacyWarning):
    """Values of the entity differ only in white space or case, so a person may count as several."""


class ReleasesIntersect(PrivacyWarning):
    """The source was released before: classes of both releases can be intersected."""


class RowsNotAnonymous(PrivacyWarning):
    """The rows of this result are not k-anonymous: its guarantee holds for each attribute alone."""


class RowsLinkable(PrivacyWarning):
    """The rows are in the order of their originals: anyone who has those can pair every row."""


class WorkersNotPrivate(UserWarning):
    """Others may be able to read original records on a cluster's workers or between them."""


class ColumnLost(UserWarning):
    """A quasi-identifier has lost all information, or most of its values were suppressed.

    One label is released for all of its values, or most rows are released with NULL.
    """


class CodesAveraged(UserWarning):
    """Codes were averaged like numbers: rows are released with codes that do not exist."""


class ColumnsRenamed(UserWarning):
    """Duplicate column names in a file were numbered, as requested."""


class DaysAsNumbers(UserWarning):
    """Whole numbers look like dates (yyyymmdd); numbers between two of them may not be dates."""


class CommitConfirmed(UserWarning):
    """The connection was lost or a signal arrived at COMMIT, but the transaction was committed."""


class NotTold(UserWarning):
    """A notification about the end of a job was not sent, or a file for monitoring not written."""


class ExportPending(UserWarning):
    """An exported file of a published release could not be renamed, and has a temporary name."""


class ReleaseNotNoted(UserWarning):
    """A chain's last release was not recorded next to its key, so a restore may go unnoticed.

    A file beside the key file holds the number of the last release, to detect that the database was
    restored from an older backup.
    """


class ReleaseNotPublished(UserWarning):
    """A chain's last release counts as published, but its run ended before publishing it.

    Only the chain's state was committed, or the release went to another database than this one.
    """


class RulesOfAnotherTable(UserWarning):
    """Rules belong to another table that had this name before, or to one that was restored.

    A rule says how releases treat a column: its role, hierarchy and so on.
    """


class SchemaCreated(UserWarning):
    """The output's schema did not exist and was created; a misspelled name creates one, too."""


class TablesLeft(UserWarning):
    """Tables of earlier releases could not be dropped after a release was published."""


class NotDifferentiallyPrivate(UserWarning):
    """This method adds noise as its paper says, but the proof is wrong: nothing is guaranteed."""
