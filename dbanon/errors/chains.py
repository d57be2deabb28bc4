"""Chains of releases and budgets that are not there, or not as the request has them."""

from dbanon.errors.usage import UsageError


class ChainNotFound(UsageError):
    """There is no chain of this name."""

    code = "chain_not_found"
    sqlstate = "42704"


class ChainExists(UsageError):
    """There is a chain of this name already."""

    code = "chain_exists"
    sqlstate = "42710"


class ChainSamePersons(UsageError):
    """There is a chain over the same persons already; what both tell together is not kept small."""

    code = "chain_same_persons"
    sqlstate = "42710"


class ChainClosed(UsageError):
    """The chain was closed."""

    code = "chain_closed"
    sqlstate = "55000"


class ChainKeyWrong(UsageError):
    """The key is not that of the chain, or cannot be read."""

    code = "chain_key_wrong"
    sqlstate = "28000"


class ChainEntityRows(UsageError):
    """In a chain every person has one row, and one value that says who it is."""

    code = "chain_entity_rows"
    sqlstate = "23505"


class ChainModel(UsageError):
    """This privacy model is not kept over the releases of a chain."""

    code = "chain_model"
    sqlstate = "0A000"


class BudgetNotFound(UsageError):
    """There is no privacy budget of this name."""

    code = "budget_not_found"
    sqlstate = "42704"


class BudgetExists(UsageError):
    """There is a privacy budget of this name, or an open one of this source, already."""

    code = "budget_exists"
    sqlstate = "42710"
