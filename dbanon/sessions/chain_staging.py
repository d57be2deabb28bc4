"""Names of the staging tables of a chain's release.

A chain is a series of releases of one source, whose persons stay in the same classes. Such a
lasting class is a *cell*, and a *member* is a person who was admitted to a cell. A *tag* is the
keyed hash of a person's identifier. *Displayed* rows are those in the newest release. A person's
*history* is the person's cell, and the release at which the person left it, if any. A *retained*
column is released unchanged.
"""

# A random secret for the row order, or for the hashes of rows that are fetched.
SHUFFLE = "dbanon_shuffle"

# All persons in the source or the chain, with their tags; only on PostgreSQL.
TAGGED_PERSONS = "dbanon_tagged"
# Persons in the source: person (identifier), tag, cell, left_at, retained columns k0, k1 and so on.
# The cell, and the release at which the person left it, are NULL unless the person is a member.
PRESENT_PERSONS = "dbanon_present"
# Members who are not in the source.
ABSENT_MEMBERS = "dbanon_missing"
# Persons in the source who are not members yet.
NEWCOMERS = "dbanon_newcomers"
# Newcomers who are not admitted yet, with the release since which they have been waiting.
WAITING_NEWCOMERS = "dbanon_waiting"
# Row keys, tags and cells of persons that the client loaded.
LOADED_PERSONS = "dbanon_matched"
# The tags of persons to withdraw; in chains that only measure, the tags of all persons, with their
# histories.
PERSON_TAGS = "dbanon_traces"
# Members of the closed chain that this one follows, with their cells there.
PREDECESSOR_MEMBERS = "dbanon_before"

# Per displayed cell, the number of members in the source, and whether their rows changed.
CELL_COUNTS = "dbanon_counted"
# The next state of every displayed cell: cell, members, present, is_unchanged, state. ``members``
# and ``present`` are the numbers of all members, and of those in the source.
NEXT_CELL_STATES = "dbanon_verdict"
# The rows that the release takes from the source: those of new cells, and of cells whose displayed
# rows are replaced; only for sources with several rows per person.
NEW_ROWS = "dbanon_current"
# Per cell with changed rows, the number of rows (n_changed) that differ from the last release.
CHANGED_CELLS = "dbanon_differing"
# Frozen cells whose rows have changed, and with a member who was absent and has returned.
CELLS_WITH_RETURNED = "dbanon_returned"
# Cells whose rows in the source would violate a privacy model.
FAILING_CELLS = "dbanon_unfit"

# The following three are for the recount of a release.
# Cells that display rows of persons who are not in the source.
CELLS_WITH_ABSENT = "dbanon_absent"
# The rows that ``CELLS_WITH_ABSENT`` displayed in the last release.
EARLIER_ROWS = "dbanon_shown"
# The number of persons (size) who share each history: cell, left_at.
HISTORY_SIZES = "dbanon_histories"

# The following six are for sources with several rows per person.
# All rows of the persons in the source.
SOURCE_ROWS = "dbanon_entries"
# The rows that may be displayed, for persons who have more rows than the limit.
LIMITED_ROWS = "dbanon_chosen"
# The newcomers, one row each, with the values by which they are grouped into classes.
NEWCOMER_RECORDS = "dbanon_persons"
# The persons with displayed rows, one row each, with a digest of these rows.
DISPLAYED_PERSONS = "dbanon_displayed"
# The persons in new cells, and in cells whose displayed rows are replaced.
RENEWED_PERSONS = "dbanon_renewed"
# The same persons with their numbers in the release.
NUMBERED_PERSONS = "dbanon_numbered"
# All staging tables of chains.
STAGING = (
    TAGGED_PERSONS,
    PRESENT_PERSONS,
    ABSENT_MEMBERS,
    NEWCOMERS,
    WAITING_NEWCOMERS,
    NEXT_CELL_STATES,
    NEW_ROWS,
    CHANGED_CELLS,
    CELLS_WITH_RETURNED,
    FAILING_CELLS,
    PERSON_TAGS,
    SHUFFLE,
    CELLS_WITH_ABSENT,
    EARLIER_ROWS,
    HISTORY_SIZES,
    PREDECESSOR_MEMBERS,
    SOURCE_ROWS,
    LIMITED_ROWS,
    NEWCOMER_RECORDS,
    DISPLAYED_PERSONS,
    RENEWED_PERSONS,
    NUMBERED_PERSONS,
    CELL_COUNTS,
    LOADED_PERSONS,
)
