"""Errors about guarantees and what they are based on.

A guarantee that was not reached has exit code 3. Something that changed since an earlier release
or declaration has exit code 6, and so has a warning that ``strict`` turns into an error. Wrong use,
such as a name that does not exist, has exit code 2 (``UsageError``).

A *rule* says how releases treat a column of a table; the table's owner declares it. ``strict`` is
the option that refuses releases with certain warnings.
"""

from __future__ import annotations

from dbanon.errors.base import DbanonError
from dbanon.errors.usage import UsageError


class LedgerEntryBroken(UsageError):
    """The ledger's entry for a release does not contain what dbanon writes there."""

    code = "ledger_entry_broken"
    sqlstate = "XX001"


class ChainNotFound(UsageError):
    """There is no chain of this name."""

    code = "chain_not_found"
    sqlstate = "42704"


class ChainExists(UsageError):
    """A chain of this name already exists."""

    code = "chain_exists"
    sqlstate = "42710"


class ChainSamePersons(UsageError):
    """A chain over the same persons already exists; nothing limits what both reveal together."""

    code = "chain_same_persons"
    sqlstate = "42710"


class ChainClosed(UsageError):
    """The chain was closed."""

    code = "chain_closed"
    sqlstate = "55000"


class ChainKeyWrong(UsageError):
    """The key is not the chain's key, or cannot be read."""

    code = "chain_key_wrong"
    sqlstate = "28000"


class PseudonymKeyWrong(UsageError):
    """The key of pseudonyms cannot be read, or is not that of the release."""

    code = "pseudonym_key_wrong"
    sqlstate = "28000"


class PseudonymsNotHere(UsageError):
    """No pseudonyms are made in this database: its driver would write the key into statements."""

    code = "pseudonyms_not_here"
    sqlstate = "0A000"


class ChainEntityRows(UsageError):
    """A person has more than one row in a chain, or more than one value of a quasi-identifier."""

    code = "chain_entity_rows"
    sqlstate = "23505"


class ChainFirstTable(UsageError):
    """A quasi-identifier is a column of a further table of a chain, and not of its first one."""

    code = "chain_first_table"
    sqlstate = "0A000"


class ChainModel(UsageError):
    """A chain cannot maintain this privacy model over its releases."""

    code = "chain_model"
    sqlstate = "0A000"


class BudgetNotFound(UsageError):
    """There is no privacy budget of this name."""

    code = "budget_not_found"
    sqlstate = "42704"


class BudgetExists(UsageError):
    """A privacy budget of this name, or an open one for this source, already exists."""

    code = "budget_exists"
    sqlstate = "42710"


class PrivacyRefusal(DbanonError):
    """The requested guarantee was not reached, and nothing was published."""

    code = "privacy_refusal"
    exit_code = 3
    sqlstate = "ZK002"


class RecountFailed(PrivacyRefusal):
    """The relation failed its recount."""

    code = "recount_failed"
    sqlstate = "ZK001"


class TooFewRecords(PrivacyRefusal):
    """There are fewer records than k."""

    code = "too_few_records"
    sqlstate = "ZK002"


class SuppressionOverBudget(PrivacyRefusal):
    """More records would be suppressed than allowed."""

    code = "suppression_over_budget"
    sqlstate = "ZK003"


class ModelInfeasible(PrivacyRefusal):
    """The table as one class does not satisfy the privacy model, so no release of it can."""

    code = "model_infeasible"
    sqlstate = "ZK002"


class RiskTooHigh(PrivacyRefusal):
    """The disclosure risk of the release is above a limit of its job."""

    code = "risk_too_high"
    sqlstate = "ZK002"


class ProfileBroken(PrivacyRefusal):
    """A column of the release breaks a rule of its profile."""

    code = "profile_broken"
    sqlstate = "ZK002"


class BudgetExhausted(PrivacyRefusal):
    """The release would spend more than is left in the privacy budget."""

    code = "budget_exhausted"
    sqlstate = "ZK009"


class NoiseTooLarge(PrivacyRefusal):
    """The release would be nothing but noise."""

    code = "noise_too_large"
    sqlstate = "ZK009"


class SecondRelease(PrivacyRefusal):
    """The persons of the source were released before, outside of a chain with this release."""

    code = "second_release"
    sqlstate = "ZK011"


class ReleaseChanged(DbanonError):
    """The published relation changed since it was verified.

    Its columns, types, rows, class sizes or levels of privacy models differ from those that were
    recorded, or no release published a file with these bytes.
    """

    code = "release_changed"
    exit_code = 6
    sqlstate = "ZK007"


class RefreshRefused(DbanonError):
    """Something that the release depends on has changed, or is missing from the ledger.

    A refresh repeats a release with the options that the ledger has recorded.
    """

    code = "refresh_refused"
    exit_code = 6
    sqlstate = "ZK010"


class OriginalChanged(DbanonError):
    """The relation is not the one that the release was made from, or it has changed since.

    An evaluation compares a release with its originals some time after the release.
    """

    code = "original_changed"
    exit_code = 6
    sqlstate = "ZK008"


class ColumnUnclassified(DbanonError):
    """A column has no role."""

    code = "column_unclassified"
    exit_code = 6
    sqlstate = "ZK005"


class TableChanged(DbanonError):
    """A table is not as its job file says, or as it was at the job's last release."""

    code = "table_changed"
    exit_code = 6
    sqlstate = "ZK005"


class UnexpectedCounts(DbanonError):
    """The numbers of rows, persons or NULLs in the source are not those that its job expects."""

    code = "unexpected_counts"
    exit_code = 6
    sqlstate = "ZK012"


class ColumnWithoutRule(DbanonError):
    """A column has no rule, but the release is made by the rules of its table."""

    code = "column_without_rule"
    exit_code = 6
    sqlstate = "ZK005"


class RuleWithoutColumn(DbanonError):
    """A rule names a column that its table does not have."""

    code = "rule_without_column"
    exit_code = 6
    sqlstate = "ZK005"


class TellingColumnRefused(DbanonError):
    """A column that is released unchanged reveals too much, and strict was requested.

    It is nearly unique, or it determines a quasi-identifier: ``KeptColumnTells`` as an error.
    Pseudonyms are refused, too, since they show which rows share a value, and so is what tells by
    how many days dates are shifted.
    """

    code = "telling_column"
    exit_code = 6
    sqlstate = "ZK005"


class LinkingColumnRefused(DbanonError):
    """A column that is released unchanged singles out rows, and strict was requested.

    It is another coding of a quasi-identifier, or identifies small groups such as households:
    ``KeptColumnLinks`` as an error, if the share of rows that it singles out is large enough.
    """

    code = "linking_column"
    exit_code = 6
    sqlstate = "ZK005"


class KeptIdentifierRefused(DbanonError):
    """A column that is released unchanged looks like an identifier, and strict was requested.

    This is the warning ``KeptColumnIdentifies`` as an error.
    """

    code = "kept_identifier"
    exit_code = 6
    sqlstate = "ZK005"


class RowsLinkableRefused(DbanonError):
    """Released rows would be in the order of their originals, and strict was requested.

    This is the warning ``RowsLinkable`` as an error.
    """

    code = "rows_linkable"
    exit_code = 6
    sqlstate = "ZK005"


class TooFewPersons(DbanonError):
    """Classes would hold fewer than k persons, as a column suggests, and strict was requested.

    The column looks like a person identifier, and classes hold fewer than k of its values:
    ``PersonsBelowK`` as an error.
    """

    code = "too_few_persons"
    exit_code = 6
    sqlstate = "ZK005"


class EntitySpellingsRefused(DbanonError):
    """Spellings of one person may count as several persons, and strict was requested.

    This is the warning ``EntitySpellings`` as an error.
    """

    code = "entity_spellings"
    exit_code = 6
    sqlstate = "ZK005"


class TraceTooSmall(PrivacyRefusal):
    """Fewer than k persons would share a history over the releases of a chain.

    A history, or trace, is the sequence of a person's classes and absences in these releases. In a
    chain that guarantees k for histories, this check before publication should never fail.
    """

    code = "trace_too_small"
    sqlstate = "ZK006"


class ChainModelBroken(PrivacyRefusal):
    """A class of a chain would not satisfy a privacy model."""

    code = "chain_model_broken"
    sqlstate = "ZK006"


class ChainTurnover(PrivacyRefusal):
    """Many members of a chain left and as many newcomers joined: ids may be written differently."""

    code = "chain_turnover"
    sqlstate = "ZK006"


class ChainExposed(PrivacyRefusal):
    """More persons than allowed would have a joint history that fewer than k share.

    Chains that do not guarantee k for histories may limit the share of such persons instead.
    """

    code = "chain_exposed"
    sqlstate = "ZK006"


class ChainChanged(DbanonError):
    """The job differs from the one of the chain's first release."""

    code = "chain_changed"
    exit_code = 6
    sqlstate = "ZK005"


class ChainBehind(DbanonError):
    """A release of the chain is missing from its state, which was restored or copied.

    The state is what the database stores of a chain: its cells, and the persons in them.
    """

    code = "chain_behind"
    exit_code = 6
    sqlstate = "ZK007"
