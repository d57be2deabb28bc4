"""Invented persons for the demonstration, the documentation and the benchmarks."""

from __future__ import annotations

import unicodedata
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

_Floats = NDArray[np.float64]
_Index = NDArray[np.int64]

_TODAY: Final = np.datetime64("2025-01-01", "D")
_YEAR: Final = 365.2425
"""Days."""


def _words(text: str) -> NDArray[Any]:
    return np.array(text.split())


_SEXES: Final = np.array(["female", "male"])
_FEMALE_NAMES: Final = _words(
    "Ada Agnès Aisha Alba Amina Anna Astrid Beatriz Carla Chiara Clara Dunja Elena Elif Emma "
    "Eva Fatima Frida Greta Hanna Hélène Ida Ines Ingrid Irina Jana Júlia Karin Lara Laura "
    "Lea Lena Lucía Maja Maria Marta Mei Mila Nadia Nina Noor Olga Paula Petra Rosa Sara "
    "Sofia Tereza Vera Zoë"
)
_MALE_NAMES: Final = _words(
    "Adam Ahmed Aleš Andreas Anton Arjun Benjamin Björn Carlos Daniel David Dimitri Elias "
    "Emil Erik Felix Finn Gábor Georg Henrik Hugo Ivan Jakob Jan João Jonas Karl Kemal Leo "
    "Luca Lukas Marco Mateo Max Mehmet Milan Nils Noah Omar Oskar Pablo Paul Pavel Rafael "
    "Samuel Simon Thomas Tomás Viktor Wei"
)
_FAMILY_NAMES: Final = _words(
    "Aalto Adler Almeida Andersen Bakker Bauer Becker Berg Bianchi Blanc Brandt Carvalho "
    "Castillo Chen Costa Dahl Demir Dubois Durand Ebner Eriksen Esposito Falk Ferrari Fischer "
    "Fontaine García Gomes Gruber Haas Hansen Hartmann Herrera Hoffmann Horvat Huber Ivanova "
    "Jansen Jensen Kaya Keller Klein Kovács Kowalska Krüger Lambert Larsen Laurent Lehmann "
    "Lindqvist Lopes Maier Marino Martin Meyer Molina Moreau Moser Müller Nielsen Novák Olsen "
    "Ortega Öztürk Petit Popović Ramos Ricci Richter Romano Rossi Roux Ruiz Santos Sato "
    "Schäfer Schmid Schneider Schulz Silva Simon Sørensen Steiner Suárez Svoboda Szabó Torres "
    "Unger Vargas Vidal Virtanen Visser Vogel Wagner Walter Weber Winter Wolf Wójcik Yıldız "
    "Zimmermann"
)

# Region: share of the population, factor on income, typical way to work in km, its sites.
_REGIONS: Final = (
    ("Capital", 0.27, 1.15, 7.0, ("Capital Centre", "Capital East", "Capital Harbour")),
    ("Coast", 0.18, 1.00, 11.0, ("Seaport", "Long Beach", "Lighthouse")),
    ("Plains", 0.17, 0.92, 18.0, ("Millfield", "Three Bridges", "Oldmarket")),
    ("Lakes", 0.15, 0.97, 14.0, ("Clearwater", "Ferrytown", "Northshore")),
    ("Valley", 0.13, 1.05, 12.0, ("Vineyard", "Riverside", "Castle Hill")),
    ("Mountains", 0.10, 0.88, 23.0, ("High Pass", "Pinewood", "Silver Mine")),
)
_SITE_SHARES: Final = (0.55, 0.30, 0.15)

_EDUCATIONS: Final = np.array(
    ["lower secondary", "upper secondary", "vocational", "bachelor", "master", "doctorate"]
)
_EDUCATION_BOUNDS: Final = (-0.95, -0.15, 0.45, 1.05, 2.0)
_EDUCATION_MIN_AGE: Final = np.array([16, 18, 19, 21, 23, 27])

# Yearly income at the age of highest pay, before factors; share among workers per education.
_OCCUPATIONS: Final = (
    ("agriculture", 27_000, (0.10, 0.06, 0.05, 0.01, 0.01, 0.00)),
    ("care", 33_000, (0.12, 0.13, 0.18, 0.12, 0.05, 0.02)),
    ("construction", 35_000, (0.17, 0.11, 0.18, 0.02, 0.01, 0.00)),
    ("education", 44_000, (0.01, 0.03, 0.04, 0.20, 0.20, 0.30)),
    ("engineering", 58_000, (0.01, 0.04, 0.08, 0.20, 0.25, 0.20)),
    ("finance", 56_000, (0.01, 0.08, 0.06, 0.15, 0.15, 0.05)),
    ("hospitality", 25_000, (0.20, 0.15, 0.08, 0.04, 0.02, 0.00)),
    ("management", 72_000, (0.01, 0.04, 0.05, 0.12, 0.18, 0.13)),
    ("medicine", 84_000, (0.00, 0.00, 0.01, 0.02, 0.09, 0.28)),
    ("retail", 27_000, (0.22, 0.22, 0.12, 0.08, 0.03, 0.01)),
    ("transport", 31_000, (0.15, 0.14, 0.15, 0.04, 0.01, 0.01)),
)
_OUT_OF_WORK: Final = (("student", 9_000), ("unemployed", 14_000), ("retired", 0))

_MARITAL: Final = np.array(["single", "married", "divorced", "widowed"])
_MARITAL_AGES: Final = (18, 25, 35, 50, 65, 80, 95)
_MARITAL_SHARES: Final = (
    (0.98, 0.80, 0.42, 0.22, 0.11, 0.07, 0.05),
    (0.02, 0.18, 0.52, 0.59, 0.62, 0.47, 0.18),
    (0.00, 0.02, 0.06, 0.17, 0.17, 0.10, 0.05),
    (0.00, 0.00, 0.00, 0.02, 0.10, 0.36, 0.72),
)

# Diagnosis: log odds against "none" at 50 years and a BMI of 26, per 10 years, per BMI point, for
# women, and visits a year.
_DIAGNOSES: Final = (
    ("none", 0.00, 0.00, 0.00, 0.0, 1.2),
    ("asthma", -2.30, -0.12, 0.03, 0.2, 3.0),
    ("cancer", -3.60, 0.50, 0.01, 0.0, 9.0),
    ("coronary heart disease", -3.40, 0.62, 0.06, -0.7, 5.5),
    ("depression", -2.20, -0.06, 0.02, 0.6, 5.0),
    ("diabetes type 2", -2.70, 0.36, 0.17, -0.3, 5.0),
    ("HIV infection", -5.60, -0.10, -0.02, -1.2, 6.0),
    ("hypertension", -1.30, 0.45, 0.11, -0.2, 3.2),
    ("migraine", -2.40, -0.22, 0.00, 0.9, 2.5),
    ("osteoarthritis", -2.60, 0.48, 0.09, 0.4, 3.6),
)

_NOTES: Final = (
    "asked to be called back in the evening",
    "brought a relative to the appointment",
    "moved house last month, new address on file",
    "prefers letters to e-mail",
    "speaks through an interpreter",
    "was referred by the family doctor",
    "works night shifts, morning appointments only",
)


def generate_persons(n: int, seed: int) -> dict[str, NDArray[Any]]:
    """Draw a table of `n` invented adults: columns by name, each an array of shape (n,).

    The same `n` and `seed` give the same table on the same version of numpy. There are no missing
    values. No two persons share a person_id, national_id or email.

    Identifiers: `person_id` int64 in no order; `full_name`, `email` (in a domain reserved for
    examples) and `national_id` (country code ZZ, which no country has) text.

    Numeric quasi-identifiers: `birth_date` datetime64[D], ages 18 to 95 on 2025-01-01; `height_cm`
    int64, cm; `weight_kg` float64, kg, one decimal, fits numeric(5,1); `income` int64, currency
    units a year, in steps of 10; `commute_km` float64, km one way, one decimal, 0 for those without
    work; `household_size` int64, persons; `visits` int64, visits to a doctor in a year.

    Categorical attributes, text: `sex`, `region`, `site` (each site lies in one region),
    `education`, `occupation`, `marital_status`.

    Sensitive, text: `diagnosis`, which depends on age, weight for height, and sex.

    Free text: `note`, which holds names and must never be released.

    Raises ValueError when `n` is negative or over 10**8, the number of national ids.
    """
    if not 0 <= n <= 10**8:
        raise ValueError("the number of persons must be between 0 and 10**8")
    rng = np.random.default_rng(seed)

    age = _age(rng, n)
    sex = (rng.random(n) < 0.49).astype(np.int64)
    region, site = _places(rng, n)
    education = _education(rng, age)
    occupation = _occupation(rng, age, education)
    shares = [np.interp(age, _MARITAL_AGES, share) for share in _MARITAL_SHARES]
    marital = _choose(rng, np.column_stack(shares))
    height, weight = _body(rng, age, sex, education)
    body_mass_index = weight / (height / 100) ** 2
    diagnosis = _diagnosis(rng, age, sex, body_mass_index)
    identifiers = _identifiers(rng, sex)

    working = occupation < len(_OCCUPATIONS)
    commute = _take([r[3] for r in _REGIONS], region) * rng.lognormal(-0.2, 0.7, n)
    mean_visits = _take([d[5] for d in _DIAGNOSES], diagnosis) * (0.7 + age / 150)
    return {
        **identifiers,
        "birth_date": _TODAY - np.round(age * _YEAR).astype("timedelta64[D]"),
        "sex": _SEXES[sex],
        "region": np.array([r[0] for r in _REGIONS])[region],
        "site": np.array([r[4] for r in _REGIONS])[region, site],
        "education": _EDUCATIONS[education],
        "occupation": np.array([o[0] for o in (*_OCCUPATIONS, *_OUT_OF_WORK)])[occupation],
        "marital_status": _MARITAL[marital],
        "household_size": _household_size(rng, age, marital),
        "height_cm": height,
        "weight_kg": weight,
        "income": _income(rng, age, education, occupation, region),
        "commute_km": np.where(working, np.round(np.minimum(commute, 150.0) + 0.1, 1), 0.0),
        # The gamma factor makes a few persons come very often.
        "visits": rng.poisson(mean_visits * rng.gamma(2.0, 0.5, n)),
        "diagnosis": np.array([d[0] for d in _DIAGNOSES])[diagnosis],
        "note": _notes(rng, identifiers["full_name"]),
    }


def _age(rng: np.random.Generator, n: int) -> _Floats:
    """Age in years of whole days: an ageing population."""
    below = [0.0, 0.13, 0.30, 0.48, 0.67, 0.83, 0.94, 1.0]
    years = np.interp(rng.random(n), below, [18.01, 28, 39, 50, 62, 73, 83, 95])
    return np.floor(years * _YEAR) / _YEAR


def _places(rng: np.random.Generator, n: int) -> tuple[_Index, _Index]:
    """Index of the region, and of the site within it."""
    region = rng.choice(len(_REGIONS), size=n, p=[r[1] for r in _REGIONS])
    return region, rng.choice(len(_SITE_SHARES), size=n, p=_SITE_SHARES)


def _education(rng: np.random.Generator, age: _Floats) -> _Index:
    """Index of the highest degree: later generations went to school for longer."""
    inclination = rng.standard_normal(len(age)) + (50 - age) * 0.016
    degree = np.searchsorted(_EDUCATION_BOUNDS, inclination)
    possible = np.searchsorted(_EDUCATION_MIN_AGE, age, side="right") - 1
    return np.minimum(degree, possible)


def _occupation(rng: np.random.Generator, age: _Floats, education: _Index) -> _Index:
    """Index into the occupations, followed by those out of work."""
    shares = np.array([o[2] for o in _OCCUPATIONS]).T
    occupation = _choose(rng, shares[education])
    student, unemployed, retired = range(len(_OCCUPATIONS), len(_OCCUPATIONS) + len(_OUT_OF_WORK))
    u = rng.random((3, len(age)))
    occupation[u[0] < np.array([0.13, 0.08, 0.07, 0.04, 0.03, 0.02])[education]] = unemployed
    occupation[u[1] < np.interp(age, [18, 22, 26, 30], [0.75, 0.45, 0.12, 0.0])] = student
    occupation[u[2] < np.interp(age, [55, 60, 64, 67, 75], [0.0, 0.12, 0.45, 0.93, 1.0])] = retired
    return occupation


def _income(
    rng: np.random.Generator, age: _Floats, education: _Index, occupation: _Index, region: _Index
) -> _Index:
    """Currency units a year, skewed to the right, with the highest pay around 52 years."""
    career = 1 - ((np.minimum(age, 67) - 52) / 55) ** 2
    degree = _take([0.86, 0.94, 1.0, 1.12, 1.25, 1.4], education)
    region_factor = _take([r[2] for r in _REGIONS], region)
    base = _take([o[1] for o in (*_OCCUPATIONS, *_OUT_OF_WORK)], occupation)
    # Pensions depend on the degree, since the former occupation is unknown.
    retired = occupation == len(_OCCUPATIONS) + len(_OUT_OF_WORK) - 1
    base = np.where(retired, 24_000, base)
    career = np.where(occupation < len(_OCCUPATIONS), career, 1.0)
    income = base * career * degree * region_factor * rng.lognormal(-0.04, 0.28, len(age))
    return (np.round(income / 10) * 10).astype(np.int64)


def _household_size(rng: np.random.Generator, age: _Floats, marital: _Index) -> _Index:
    married = marital == 1
    children = np.interp(age, [18, 25, 38, 50, 60], [0.0, 0.4, 1.6, 0.9, 0.1])
    others = np.interp(age, [18, 24, 32, 95], [1.6, 0.7, 0.25, 0.08])
    mean = np.where(married, children, 0.35 * children + others)
    size: _Index = np.minimum(1 + married + rng.poisson(mean), 9)
    return size


def _body(
    rng: np.random.Generator, age: _Floats, sex: _Index, education: _Index
) -> tuple[_Index, _Floats]:
    """Height in cm and weight in kg."""
    n = len(age)
    # Earlier generations are smaller, and the old have shrunk.
    centimetres = _take([166.5, 180.0], sex) - 0.09 * (age - 40) + rng.normal(0, 6.6, n)
    height = np.round(np.clip(centimetres, 140, 215)).astype(np.int64)
    typical = 23.2 + 0.8 * sex + np.interp(age, [18, 60, 95], [0, 3.8, 2.6]) - 0.35 * education
    index = np.clip(typical * rng.lognormal(0.01, 0.15, n), 15.5, 52.0)
    return height, np.round(index * (height / 100) ** 2, 1)


def _diagnosis(
    rng: np.random.Generator, age: _Floats, sex: _Index, body_mass_index: _Floats
) -> _Index:
    base, per_decade, per_index, woman = (
        np.array([d[column] for d in _DIAGNOSES]) for column in (1, 2, 3, 4)
    )
    odds = np.exp(
        base
        + np.outer((age - 50) / 10, per_decade)
        + np.outer(body_mass_index - 26, per_index)
        + np.outer(1 - sex, woman)
    )
    return _choose(rng, odds)


def _identifiers(rng: np.random.Generator, sex: _Index) -> dict[str, NDArray[Any]]:
    n = len(sex)
    person_id = rng.permutation(n) + 100_001
    given_names = np.array([_FEMALE_NAMES, _MALE_NAMES])
    first = (sex, rng.integers(given_names.shape[1], size=n))
    # Few names are frequent, many are rare.
    family = (len(_FAMILY_NAMES) * rng.random(n) ** 1.6).astype(np.int64)
    # A multiplier without a factor in common with 10**8 keeps the numbers distinct.
    national = 10**8 + (person_id * 48_271_397 + rng.integers(10**8)) % 10**8
    email = np.char.add(_ascii(given_names)[first], np.array(["."]))
    email = np.char.add(email, _ascii(_FAMILY_NAMES)[family])
    email = np.char.add(np.char.add(email, person_id.astype(np.str_)), np.array(["@example.org"]))
    spaced = np.char.add(given_names, " ")
    return {
        "person_id": person_id,
        "full_name": np.char.add(spaced[first], _FAMILY_NAMES[family]),
        "email": email,
        "national_id": np.char.add("ZZ-", national.astype(np.str_)),
    }


def _notes(rng: np.random.Generator, full_name: NDArray[Any]) -> NDArray[Any]:
    text = np.array([f" {note}" for note in _NOTES])
    return np.char.add(full_name, text[rng.integers(len(_NOTES), size=len(full_name))])


def _ascii(names: NDArray[Any]) -> NDArray[Any]:
    """Lower case without accents, as in an address."""
    replaced = {"ø": "o", "ı": "i", "ł": "l"}
    plain = [
        "".join(replaced.get(c, c) for c in unicodedata.normalize("NFKD", name.lower()))
        .encode("ascii", "ignore")
        .decode()
        for name in names.ravel()
    ]
    return np.array(plain).reshape(names.shape)


def _choose(rng: np.random.Generator, weights: _Floats) -> _Index:
    """One column index per row of (n, m) non-negative weights, drawn in proportion."""
    below = np.cumsum(weights, axis=1)
    thresholds = rng.random(len(weights)) * below[:, -1]
    chosen: _Index = np.sum(thresholds[:, None] >= below, axis=1)
    return chosen


def _take(values: ArrayLike, index: _Index) -> _Floats:
    return np.asarray(values, dtype=np.float64)[index]
