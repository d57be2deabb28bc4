"""Lock, create and publish the output of a release on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakMethod

from dbanon.errors import OutputChanged, ReadOnly, SourceChanged, warn_caller
from dbanon.ledger.tables import LEDGER_SCHEMA
from dbanon.sessions.base import MARK, Output
from dbanon.sessions.names import RelationName, quote, quote_list, schema_created
from dbanon.sessions.publication import Publication
from dbanon.sessions.types import type_family
from dbanon.stores.postgresql import catalog, rights
from dbanon.stores.postgresql.connection import PostgresqlConnection
from dbanon.stores.postgresql.errors import READ_ONLY_HINT
from dbanon.stores.postgresql.locks import lock_output, run_with_retries


class PostgresqlPublication(Publication):
    """Writes and publishes relations on PostgreSQL.

    Parameters
    ----------
    columns_of : returns the names and types of a relation's columns.
    """

    _connection: PostgresqlConnection

    def __init__(
        self,
        connection: PostgresqlConnection,
        columns_of: Callable[[RelationName], list[tuple[str, str]]],
    ) -> None:
        super().__init__(connection)
        self._columns_of = columns_of
        # The release that this transaction publishes, if any, and the statements that ``publish``
        # runs together with those that replace the output.
        self.release_id: str | None = None
        self._deferred_statements: list[str] = []
        # In a dry run: whether the transaction of a real run would be read-only. None in a real
        # run.
        self._planned_read_only: bool | None = None

    def begin_plan(self, *, staging: bool) -> None:
        """Begin a dry run: take no locks on outputs.

        Parameters
        ----------
        staging : whether to allow staging tables; otherwise the transaction is read-only.
        """
        self._planned_read_only = self._is_read_only()
        if not staging:
            self._connection.run("SET TRANSACTION READ ONLY")

    def lock(self, name: RelationName) -> None:
        is_planning = self._planned_read_only is not None
        is_read_only = self._planned_read_only if is_planning else self._is_read_only()
        if is_read_only:
            raise ReadOnly(hint=READ_ONLY_HINT)
        if not is_planning:
            lock_output(self._connection, name)

    def _is_read_only(self) -> bool:
        """Return True if this transaction is read-only, as all are on a standby."""
        query = "SELECT current_setting('transaction_read_only') = 'on'"
        return bool(self._connection.look_up(query)[0][0])

    def ensure_schema(self, name: RelationName) -> None:
        # Users expect a new schema for the ledger, but perhaps not one for an output.
        is_new_schema = rights.make_schema(self._connection, str(name.schema))
        if is_new_schema and name.schema != LEDGER_SCHEMA:
            warn_caller(schema_created(str(name.schema)))

    def create_table(
        self, output: Output, columns: Sequence[tuple[str, str]], release_id: str
    ) -> None:
        self.release_id = release_id
        body = ", ".join(f"{quote(name)} {sql_type}" for name, sql_type in columns)
        staging_name = output.staging_name.quoted
        self._connection.run(f"CREATE TABLE {staging_name} ({body})")
        self._connection.run(f"COMMENT ON TABLE {staging_name} IS '{MARK}{release_id}'")

    def publish(self, output: Output, columns: Sequence[str]) -> None:
        # ``output.replaced_kind`` is None if the output is new.
        statements, self._deferred_statements = self._deferred_statements, []
        if output.kind == "view":
            # The view selects from ``output.relation``, the table of this release. A plain CREATE
            # fails if another session has just created this view; replacing it would leave two
            # current releases in the ledger.
            create = "CREATE OR REPLACE" if output.replaced_kind else "CREATE"
            create_view = (
                f"{create} VIEW {output.name.quoted} ({quote_list(columns)}) AS"
                f" SELECT {quote_list(columns)} FROM {output.relation.quoted}"
            )
            if output.replaced_kind and (resized_columns := self._resized_columns(output)):
                self._replace_view(output, columns, [*statements, create_view], resized_columns)
            else:
                run_with_retries(self._connection, [*statements, create_view], output.name)
            self._connection.run(
                f"COMMENT ON VIEW {output.name.quoted} IS '{MARK}{output.release_id}'"
            )
            [(n_comments,)] = self._connection.rows(
                catalog.COUNT_COMMENTS, (output.name.schema, output.name.name)
            )
            if n_comments > 1:
                # The snapshot shows this view's comment and that of a view it replaced in another
                # session.
                raise SourceChanged(
                    f"Another session replaced {output.name} in the meantime; nothing was"
                    " published.",
                    hint="Try again.",
                )
            return
        if output.replaced_kind:
            statements.append(f"DROP TABLE {output.name.quoted}")
        if statements:
            run_with_retries(self._connection, statements, output.name)
        self._connection.run(
            f"ALTER TABLE {output.staging_name.quoted} RENAME TO {quote(output.name.name)}"
        )

    def _resized_columns(self, output: Output) -> list[str]:
        """Return the columns of a view whose types have another width in the release.

        Empty if the view has other column names, or if a type differs in more than its width.
        """
        old_columns, new_columns = self._columns_of(output.name), self._columns_of(output.relation)
        if [name for name, _ in old_columns] != [name for name, _ in new_columns]:
            return []
        resized_columns = []
        for (name, old_type), (_, new_type) in zip(old_columns, new_columns, strict=True):
            if old_type != new_type:
                if type_family(old_type) != type_family(new_type):
                    return []
                resized_columns.append(name)
        return resized_columns

    def _replace_view(
        self,
        output: Output,
        columns: Sequence[str],
        statements: Sequence[str],
        resized_columns: list[str],
    ) -> None:
        """Drop and recreate a view with its grants, since the types of a view cannot be changed.

        Parameters
        ----------
        columns : the columns of the new view.
        statements : SQL that creates the new view and whatever belongs to it.
        resized_columns : the columns whose types change.

        Raises
        ------
        OutputChanged : other objects depend on the view.
        """
        grants = rights.read_grants(self._connection, output.name, columns)
        drop_view = f"DROP VIEW {output.name.quoted}"
        try:
            run_with_retries(self._connection, [drop_view, *statements], output.name)
        except OutputChanged as error:
            names = ", ".join(f'"{name}"' for name in resized_columns)
            raise OutputChanged(
                f"{names} of the view {output.name} became wider or narrower, and other objects"
                " depend on the view, so it cannot be replaced.",
                detail=error.detail,
                hint="Drop those objects and create them again after the run, or cast the columns"
                " to their former types in a view of the source.",
            ) from None
        rights.restore_grants(self._connection, output.name, grants)

    def defer(self, statement: str) -> None:
        """Keep a statement for ``publish``, which runs it with those that replace the output."""
        self._deferred_statements.append(statement)

    # ``drop_view`` and ``drop_table`` wait for the lock in short attempts, which do not block
    # readers for long.

    def drop_view(self, relation: RelationName) -> None:
        run_with_retries(self._connection, [f"DROP VIEW {relation.quoted}"], relation)

    def drop_table(self, relation: RelationName) -> None:
        run_with_retries(self._connection, [f"DROP TABLE {relation.quoted}"], relation)


class PsycopgPublication(PostgresqlPublication):
    """Writes and publishes relations through a client.

    Parameters
    ----------
    recheck_sources : checks that no other role has added code to a source since it was first
        checked.
    """

    def __init__(
        self,
        connection: PostgresqlConnection,
        columns_of: Callable[[RelationName], list[tuple[str, str]]],
        recheck_sources: Callable[[], None],
    ) -> None:
        super().__init__(connection, columns_of)
        self._recheck_sources = recheck_sources

    def create_table(
        self, output: Output, columns: Sequence[tuple[str, str]], release_id: str
    ) -> None:
        super().create_table(output, columns, release_id)
        # The next statement reads the sources again.
        self._recheck_sources()


class PlpyPublication(PostgresqlPublication):
    """Writes and publishes relations inside the server, in the caller's transaction.

    Parameters
    ----------
    drop_staging : a method of the session that drops the staging tables, so that another call in
        this transaction can create them. The reference is weak: a circle of references would keep
        the arrays of a failed call in the memory of the backend.
    """

    def __init__(
        self,
        connection: PostgresqlConnection,
        columns_of: Callable[[RelationName], list[tuple[str, str]]],
        drop_staging: WeakMethod[Callable[[], None]],
    ) -> None:
        super().__init__(connection, columns_of)
        self._drop_staging = drop_staging

    def publish(self, output: Output, columns: Sequence[str]) -> None:
        drop_staging = self._drop_staging()
        assert drop_staging is not None
        drop_staging()
        super().publish(output, columns)
