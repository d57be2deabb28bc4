"""Risk of a survey's sample, computed plainly: pairs of records, sums by definition, loops."""

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np


def matches(first, second, missing):
    """Whether two rows of codes match."""
    return all(
        a == b or (missing == "wildcard" and -1 in (a, b))
        for a, b in zip(first, second, strict=True)
    )


def sums_over_matches(queries, table, values, missing):
    """For each query, the sum of the values of all rows that match it, float64 (q,)."""
    return np.array(
        [
            math.fsum(
                value
                for row, value in zip(table, values, strict=True)
                if matches(query, row, missing)
            )
            for query in queries
        ]
    )


def individual_risk(f, population):
    """E(1/F | f): the mean of 1/F over the negative binomial distribution of F, from f up."""
    p = f / population
    if p >= 1:
        return 1 / f
    terms, size = [], f
    # The logarithm, as p^f may be too small for a float.
    logarithm = f * math.log(p)
    # Past the mean, the rest is smaller than a rounding error.
    while size < population or logarithm > -60:
        terms.append(math.exp(logarithm) / size)
        logarithm += math.log(size / (size - f + 1) * (1 - p))
        size += 1
    return math.fsum(terms)


def household_risks(risks, households):
    """1 minus the product of 1 - r over the members of each record's household."""
    return np.array(
        [
            1 - math.prod(1 - r for r, h in zip(risks, households, strict=True) if h == household)
            if household >= 0
            else risk
            for risk, household in zip(risks, households, strict=True)
        ]
    )


def zayatz(class_sizes, population_size):
    """Zayatz's number of population uniques, in exact fractions."""
    n = sum(class_sizes)

    def one_of(size):
        """The hypergeometric probability that the sample has exactly one of ``size`` persons."""
        n_others = math.comb(population_size - size, n - 1)
        return Fraction(size * n_others, math.comb(population_size, n))

    ones = class_sizes.count(1)
    if not ones:
        return 0.0
    share = Fraction(ones) * one_of(1) / sum(one_of(size) for size in class_sizes)
    return float(ones * share * Fraction(population_size, n))


def pitman_likelihood(theta, alpha, class_sizes):
    """The logarithm of Pitman's sampling formula without its constants."""
    u, n = len(class_sizes), sum(class_sizes)
    value = math.fsum(math.log(theta + i * alpha) for i in range(1, u))
    value -= math.fsum(math.log(theta + i) for i in range(1, n))
    return value + math.fsum(math.log(i - alpha) for size in class_sizes for i in range(1, size))


def shlosser(class_sizes, fraction):
    """Haas and Stokes 1998, the third estimator of Shlosser."""
    unsampled = 1 - fraction
    squared = sum(i * fraction**2 * (1 - fraction**2) ** (i - 1) for i in class_sizes)
    excess = sum(unsampled**i * ((1 + fraction) ** i - 1) for i in class_sizes)
    unseen = sum(unsampled**i for i in class_sizes)
    singles = sum(i * fraction * unsampled ** (i - 1) for i in class_sizes)
    ones = class_sizes.count(1)
    return len(class_sizes) + ones * squared / excess * (unseen / singles) ** 2


def expected_sample_classes(alpha, beta, fraction, size):
    """The share of classes with ``size`` records in the sample, if their size in the population
    minus 1 is negative binomial, by summing over that size.
    """
    terms = []
    probability = beta**alpha
    for population_size in range(1, 20_000):
        if population_size >= size:
            sampled = math.comb(population_size, size) * fraction**size
            terms.append(probability * sampled * (1 - fraction) ** (population_size - size))
        probability *= (alpha + population_size - 1) / population_size * (1 - beta)
        if probability < 1e-18:
            break
    return math.fsum(terms)


def two_way_table(levels, rounds):
    """By cell, the expected frequency with all two-way interactions: the full table, scaled."""
    n_keys = len(levels[0])
    widths = [max(row[j] for row in levels) + 1 for j in range(n_keys)]
    table = dict.fromkeys(product(*(range(width) for width in widths)), 1.0)
    for _ in range(rounds):
        for i, j in combinations(range(n_keys), 2):
            observed, fitted = {}, {}
            for row in levels:
                observed[row[i], row[j]] = observed.get((row[i], row[j]), 0) + 1
            for cell, value in table.items():
                fitted[cell[i], cell[j]] = fitted.get((cell[i], cell[j]), 0.0) + value
            for cell in table:
                pair = cell[i], cell[j]
                table[cell] *= observed.get(pair, 0) / fitted[pair] if fitted[pair] else 0.0
    return table


def pitman_population(n, theta, alpha, rng):
    """The class of each of n persons, int64 (n,), by Pitman's sampling formula."""
    classes, sizes = np.zeros(n, np.int64), []
    draws, neighbours = rng.random((n, 2)), rng.random(n)
    for i in range(n):
        if draws[i, 0] * (theta + i) < theta + alpha * len(sizes):
            classes[i] = len(sizes)
            sizes.append(1)
            continue
        # A class is chosen by its size minus alpha: by its size, and refused with alpha / size.
        label, draw = classes[int(neighbours[i] * i)], draws[i, 1]
        while draw * sizes[label] >= sizes[label] - alpha:
            label, draw = classes[rng.integers(i)], rng.random()
        classes[i] = label
        sizes[label] += 1
    return classes


def slide_negative_binomial_population(n_classes, alpha, beta, rng):
    """The class of each person, int64 (N,): classes of 1 plus a negative binomial number."""
    return np.repeat(np.arange(n_classes), 1 + rng.negative_binomial(alpha, beta, n_classes))


def random_cells(widths, rng, *, interaction):
    """All cells of a table, int32 (c, m), and random probabilities of a log-linear model.

    interaction: the standard deviation of the two-way interactions; 0 for independent keys.
    """
    cells = np.indices(widths).reshape(len(widths), -1).astype(np.int32)
    logarithms = sum(rng.normal(size=width)[key] for width, key in zip(widths, cells, strict=True))
    for i, j in combinations(range(len(widths)), 2):
        effects = rng.normal(scale=interaction, size=(widths[i], widths[j]))
        logarithms = logarithms + effects[cells[i], cells[j]]
    probabilities = np.exp(logarithms - logarithms.max())
    return np.ascontiguousarray(cells.T), probabilities / probabilities.sum()
