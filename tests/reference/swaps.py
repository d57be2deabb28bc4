"""The swaps of generalization's local search in plain Python: every pair is compared again."""

SWEEPS, PARTNERS, HOLDING = 8, 16, 8


def swaps(search):
    """Sweep over all classes while it helps, comparing each with those with most neighbours."""
    for _ in range(SWEEPS):
        if not sum(compare(search, c) for c in range(len(search.classes))):
            break
    search.losses = [search.loss_of(entries) for entries in search.classes]


def compare(search, c):
    """The number of changes that one class made with its partners; none are left that pay."""
    room = search.most // 2
    if not 0 < len(search.classes[c]) <= room:
        return 0
    times = {}
    for t, _ in search.classes[c]:
        for near in (t, *search.neighbours[t]):
            for other in search.classes_of[near][:HOLDING]:
                if other != c and len(search.classes[other]) <= room:
                    times[other] = times.get(other, 0) + 1
    partners = sorted(times, key=lambda other: (-times[other], other))[:PARTNERS]
    changes, at = 0, 0
    while at < len(partners):
        n_changes = 0
        while change := best_change(search, c, partners[at], room):
            make(search, c, partners[at], *change)
            n_changes += 1
        changes += n_changes
        # After a change all of them may pay again.
        at = 0 if n_changes else at + 1
    return changes


def best_change(search, a, b, room):
    """The copies of an entry of either class that change places where that loses least; or None."""
    entries_a, others = search.classes[a], search.classes[b]
    least = search.loss_of(entries_a) + search.loss_of(others)
    best = None

    def offer(i, j, from_a, from_b):
        nonlocal least, best
        x, y = [*entries_a[i][:1], from_a], [*others[j][:1], from_b]
        loss = search.loss_of(changed(entries_a, x, y)) + search.loss_of(changed(others, y, x))
        if loss < least:
            least, best = loss, (x, y)

    sizes = [sum(count for _, count in entries) for entries in (entries_a, others)]
    if len(entries_a) > 1 and len(others) > 1:
        for i, (_, leaving) in enumerate(entries_a):
            for j, (_, coming) in enumerate(others):
                more = coming - leaving
                if sizes[0] + more >= search.k and sizes[1] - more >= search.k:
                    offer(i, j, leaving, coming)
    if sizes[0] > search.k and len(others) < room:
        for i, (_, count) in enumerate(entries_a):
            offer(i, 0, min(count, sizes[0] - search.k), 0)
    if sizes[1] > search.k and len(entries_a) < room:
        for j, (_, count) in enumerate(others):
            offer(0, j, 0, min(count, sizes[1] - search.k))
    return best


def changed(entries, leaving, coming):
    """The members of a class after copies have left and arrived."""
    counts = dict(entries)
    for (t, count), sign in ((leaving, -1), (coming, 1)):
        counts[t] = counts.get(t, 0) + sign * count
    return [[t, count] for t, count in counts.items() if count]


def make(search, a, b, x, y):
    for c, other, (t, count) in ((a, b, x), (b, a, y)):
        if not count:
            continue
        giving, taking = search.classes[c], search.classes[other]
        giving_entry = next(entry for entry in giving if entry[0] == t)
        giving_entry[1] -= count
        if not giving_entry[1]:
            giving.remove(giving_entry)
            holding = search.classes_of[t]
            holding[holding.index(c)] = holding[-1]
            holding.pop()
        taking_entry = next((entry for entry in taking if entry[0] == t), None)
        if taking_entry:
            taking_entry[1] += count
        else:
            taking.append([t, count])
            search.classes_of[t].append(other)
