"""Invented persons for the demonstration, the documentation and the benchmarks."""

from __future__ import annotations

import unicodedata
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbanon.data.array_types import AnyArray

# Arrays with one element per person. Integers are whole numbers, or indexes into the constants
# below.
_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]

_TODAY: Final = np.datetime64("2025-01-01", "D")
_DAYS_PER_YEAR: Final = 365.2425


class _Region(NamedTuple):
    """A region, with its share of the population.

    ``income_factor`` multiplies incomes, ``commute_km`` is a typical distance to work, and
    ``sites`` are towns or districts in the region.
    """

    name: str
    share: float
    income_factor: float
    commute_km: float
    sites: tuple[str, ...]


class _Occupation(NamedTuple):
    """An occupation with its yearly income, before factors for age, education and region.

    ``shares`` has, for each education, the share of workers who have the occupation.
    """

    name: str
    income: int
    shares: tuple[float, ...] = ()


class _Diagnosis(NamedTuple):
    """A diagnosis with its log odds against "none", and the mean number of visits a year.

    For men of 50 years with a body mass index (BMI) of 26, the log odds are ``base``. The other
    terms are added per 10 years above 50, per BMI point above 26, and for women.
    """

    name: str
    base: float
    per_decade: float
    per_bmi_point: float
    for_women: float
    visits: float


def _split_words(text: str) -> AnyArray:
    return np.array(text.split())


_SEXES: Final = np.array(["female", "male"])
_FEMALE_NAMES: Final = _split_words(
    "Ada Agnès Aisha Alba Amina Anna Astrid Beatriz Carla Chiara Clara Dunja Elena Elif Emma "
    "Eva Fatima Frida Greta Hanna Hélène Ida Ines Ingrid Irina Jana Júlia Karin Lara Laura "
    "Lea Lena Lucía Maja Maria Marta Mei Mila Nadia Nina Noor Olga Paula Petra Rosa Sara "
    "Sofia Tereza Vera Zoë"
)
_MALE_NAMES: Final = _split_words(
    "Adam Ahmed Aleš Andreas Anton Arjun Benjamin Björn Carlos Daniel David Dimitri Elias "
    "Emil Erik Felix Finn Gábor Georg Henrik Hugo Ivan Jakob Jan João Jonas Karl Kemal Leo "
    "Luca Lukas Marco Mateo Max Mehmet Milan Nils Noah Omar Oskar Pablo Paul Pavel Rafael "
    "Samuel Simon Thomas Tomás Viktor Wei"
)
_FAMILY_NAMES: Final = _split_words(
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

_REGIONS: Final = (
    _Region("Capital", 0.27, 1.15, 7.0, ("Capital Centre", "Capital East", "Capital Harbour")),
    _Region("Coast", 0.18, 1.00, 11.0, ("Seaport", "Long Beach", "Lighthouse")),
    _Region("Plains", 0.17, 0.92, 18.0, ("Millfield", "Three Bridges", "Oldmarket")),
    _Region("Lakes", 0.15, 0.97, 14.0, ("Clearwater", "Ferrytown", "Northshore")),
    _Region("Valley", 0.13, 1.05, 12.0, ("Vineyard", "Riverside", "Castle Hill")),
    _Region("Mountains", 0.10, 0.88, 23.0, ("High Pass", "Pinewood", "Silver Mine")),
)
# Shares of a region's population at its first, second and third site.
_SITE_SHARES: Final = (0.55, 0.30, 0.15)

_EDUCATIONS: Final = np.array(
    ["lower secondary", "upper secondary", "vocational", "bachelor", "master", "doctorate"]
)
# A person's inclination to education is a standard normal number, shifted by age. These are the
# upper bounds of the inclinations that lead to each education except the last.
_EDUCATION_BOUNDS: Final = (-0.95, -0.15, 0.45, 1.05, 2.0)
_EDUCATION_MIN_AGE: Final = np.array([16, 18, 19, 21, 23, 27])

_OCCUPATIONS: Final = (
    _Occupation("agriculture", 27_000, (0.10, 0.06, 0.05, 0.01, 0.01, 0.00)),
    _Occupation("care", 33_000, (0.12, 0.13, 0.18, 0.12, 0.05, 0.02)),
    _Occupation("construction", 35_000, (0.17, 0.11, 0.18, 0.02, 0.01, 0.00)),
    _Occupation("education", 44_000, (0.01, 0.03, 0.04, 0.20, 0.20, 0.30)),
    _Occupation("engineering", 58_000, (0.01, 0.04, 0.08, 0.20, 0.25, 0.20)),
    _Occupation("finance", 56_000, (0.01, 0.08, 0.06, 0.15, 0.15, 0.05)),
    _Occupation("hospitality", 25_000, (0.20, 0.15, 0.08, 0.04, 0.02, 0.00)),
    _Occupation("management", 72_000, (0.01, 0.04, 0.05, 0.12, 0.18, 0.13)),
    _Occupation("medicine", 84_000, (0.00, 0.00, 0.01, 0.02, 0.09, 0.28)),
    _Occupation("retail", 27_000, (0.22, 0.22, 0.12, 0.08, 0.03, 0.01)),
    _Occupation("transport", 31_000, (0.15, 0.14, 0.15, 0.04, 0.01, 0.01)),
)
# Statuses of persons without work, in the order that ``_draw_occupations`` expects.
_OUT_OF_WORK: Final = (
    _Occupation("student", 9_000),
    _Occupation("unemployed", 14_000),
    _Occupation("retired", 0),
)
_STATUSES: Final = (*_OCCUPATIONS, *_OUT_OF_WORK)

_MARITAL_STATUSES: Final = np.array(["single", "married", "divorced", "widowed"])
# Ages for which the shares of each marital status are given; between them they are interpolated.
_MARITAL_AGES: Final = (18, 25, 35, 50, 65, 80, 95)
_MARITAL_SHARES: Final = (
    (0.98, 0.80, 0.42, 0.22, 0.11, 0.07, 0.05),
    (0.02, 0.18, 0.52, 0.59, 0.62, 0.47, 0.18),
    (0.00, 0.02, 0.06, 0.17, 0.17, 0.10, 0.05),
    (0.00, 0.00, 0.00, 0.02, 0.10, 0.36, 0.72),
)

_DIAGNOSES: Final = (
    _Diagnosis("none", 0.00, 0.00, 0.00, 0.0, 1.2),
    _Diagnosis("asthma", -2.30, -0.12, 0.03, 0.2, 3.0),
    _Diagnosis("cancer", -3.60, 0.50, 0.01, 0.0, 9.0),
    _Diagnosis("coronary heart disease", -3.40, 0.62, 0.06, -0.7, 5.5),
    _Diagnosis("depression", -2.20, -0.06, 0.02, 0.6, 5.0),
    _Diagnosis("diabetes type 2", -2.70, 0.36, 0.17, -0.3, 5.0),
    _Diagnosis("HIV infection", -5.60, -0.10, -0.02, -1.2, 6.0),
    _Diagnosis("hypertension", -1.30, 0.45, 0.11, -0.2, 3.2),
    _Diagnosis("migraine", -2.40, -0.22, 0.00, 0.9, 2.5),
    _Diagnosis("osteoarthritis", -2.60, 0.48, 0.09, 0.4, 3.6),
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


def generate_persons(n: int, seed: int) -> dict[str, AnyArray]:
    """Draw a table of `n` invented adults: columns by name, each an array of shape (n,).

    The same `n` and `seed` give the same table with the same version of numpy. There are no missing
    values. No two persons share a person_id, national_id or email.

    Identifiers: `person_id` int64 in random order; `full_name`, `email` (in a domain reserved for
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

    age = _draw_ages(rng, n)
    sex = (rng.random(n) < 0.49).astype(np.int64)  # an index into _SEXES
    region, site = _draw_regions_and_sites(rng, n)
    education = _draw_educations(rng, age)
    occupation = _draw_occupations(rng, age, education)
    marital_shares = [np.interp(age, _MARITAL_AGES, shares) for shares in _MARITAL_SHARES]
    marital_status = _draw_columns(rng, np.column_stack(marital_shares))
    height, weight = _draw_heights_and_weights(rng, age, sex, education)
    body_mass_index = weight / (height / 100) ** 2
    diagnosis = _draw_diagnoses(rng, age, sex, body_mass_index)
    identifiers = _draw_identifiers(rng, sex)

    is_working = occupation < len(_OCCUPATIONS)
    commute = _look_up([r.commute_km for r in _REGIONS], region) * rng.lognormal(-0.2, 0.7, n)
    mean_visits = _look_up([d.visits for d in _DIAGNOSES], diagnosis) * (0.7 + age / 150)
    return {
        **identifiers,
        "birth_date": _TODAY - np.round(age * _DAYS_PER_YEAR).astype("timedelta64[D]"),
        "sex": _SEXES[sex],
        "region": np.array([r.name for r in _REGIONS])[region],
        "site": np.array([r.sites for r in _REGIONS])[region, site],
        "education": _EDUCATIONS[education],
        "occupation": np.array([status.name for status in _STATUSES])[occupation],
        "marital_status": _MARITAL_STATUSES[marital_status],
        "household_size": _draw_household_sizes(rng, age, marital_status),
        "height_cm": height,
        "weight_kg": weight,
        "income": _draw_incomes(rng, age, education, occupation, region),
        "commute_km": np.where(is_working, np.round(np.minimum(commute, 150.0) + 0.1, 1), 0.0),
        # The gamma factor gives a few persons very many visits.
        "visits": rng.poisson(mean_visits * rng.gamma(2.0, 0.5, n)),
        "diagnosis": np.array([d.name for d in _DIAGNOSES])[diagnosis],
        "note": _draw_notes(rng, identifiers["full_name"]),
    }


def _draw_ages(rng: np.random.Generator, n: int) -> _Floats:
    """Draw ages of an aging population, in years, rounded to whole days."""
    cumulative_shares = [0.0, 0.13, 0.30, 0.48, 0.67, 0.83, 0.94, 1.0]
    years = np.interp(rng.random(n), cumulative_shares, [18.01, 28, 39, 50, 62, 73, 83, 95])
    return np.floor(years * _DAYS_PER_YEAR) / _DAYS_PER_YEAR


def _draw_regions_and_sites(rng: np.random.Generator, n: int) -> tuple[_Integers, _Integers]:
    """Draw the index of each person's region, and of the site within it."""
    region = rng.choice(len(_REGIONS), size=n, p=[r.share for r in _REGIONS])
    return region, rng.choice(len(_SITE_SHARES), size=n, p=_SITE_SHARES)


def _draw_educations(rng: np.random.Generator, age: _Floats) -> _Integers:
    """Draw the index of the highest education; younger generations went to school for longer."""
    inclination = rng.standard_normal(len(age)) + (50 - age) * 0.016
    aspired_education = np.searchsorted(_EDUCATION_BOUNDS, inclination)
    highest_possible = np.searchsorted(_EDUCATION_MIN_AGE, age, side="right") - 1
    return np.minimum(aspired_education, highest_possible)


def _draw_occupations(rng: np.random.Generator, age: _Floats, education: _Integers) -> _Integers:
    """Draw an index into ``_STATUSES``."""
    shares = np.array([occupation.shares for occupation in _OCCUPATIONS]).T
    status = _draw_columns(rng, shares[education])
    student, unemployed, retired = range(len(_OCCUPATIONS), len(_STATUSES))
    uniform = rng.random((3, len(age)))
    status[uniform[0] < np.array([0.13, 0.08, 0.07, 0.04, 0.03, 0.02])[education]] = unemployed
    status[uniform[1] < np.interp(age, [18, 22, 26, 30], [0.75, 0.45, 0.12, 0.0])] = student
    status[uniform[2] < np.interp(age, [55, 60, 64, 67, 75], [0.0, 0.12, 0.45, 0.93, 1.0])] = (
        retired
    )
    return status


def _draw_incomes(
    rng: np.random.Generator,
    age: _Floats,
    education: _Integers,
    occupation: _Integers,
    region: _Integers,
) -> _Integers:
    """Draw incomes in currency units a year, skewed to the right and highest around 52 years."""
    age_factor = 1 - ((np.minimum(age, 67) - 52) / 55) ** 2
    education_factor = _look_up([0.86, 0.94, 1.0, 1.12, 1.25, 1.4], education)
    region_factor = _look_up([r.income_factor for r in _REGIONS], region)
    base_income = _look_up([status.income for status in _STATUSES], occupation)
    # Pensions depend on the education, since the former occupation is unknown.
    is_retired = occupation == len(_STATUSES) - 1
    base_income = np.where(is_retired, 24_000, base_income)
    age_factor = np.where(occupation < len(_OCCUPATIONS), age_factor, 1.0)
    expected_income = base_income * age_factor * education_factor * region_factor
    income = expected_income * rng.lognormal(-0.04, 0.28, len(age))
    return (np.round(income / 10) * 10).astype(np.int64)


def _draw_household_sizes(
    rng: np.random.Generator, age: _Floats, marital_status: _Integers
) -> _Integers:
    """Draw the number of persons in each household, 1 to 9."""
    is_married = _MARITAL_STATUSES[marital_status] == "married"
    children = np.interp(age, [18, 25, 38, 50, 60], [0.0, 0.4, 1.6, 0.9, 0.1])
    other_adults = np.interp(age, [18, 24, 32, 95], [1.6, 0.7, 0.25, 0.08])
    mean_others = np.where(is_married, children, 0.35 * children + other_adults)
    size: _Integers = np.minimum(1 + is_married + rng.poisson(mean_others), 9)
    return size


def _draw_heights_and_weights(
    rng: np.random.Generator, age: _Floats, sex: _Integers, education: _Integers
) -> tuple[_Integers, _Floats]:
    """Draw heights in cm and weights in kg."""
    n = len(age)
    # Older people were born into shorter generations, and have shrunk with age.
    centimetres = _look_up([166.5, 180.0], sex) - 0.09 * (age - 40) + rng.normal(0, 6.6, n)
    height = np.round(np.clip(centimetres, 140, 215)).astype(np.int64)
    typical_bmi = 23.2 + 0.8 * sex + np.interp(age, [18, 60, 95], [0, 3.8, 2.6]) - 0.35 * education
    bmi = np.clip(typical_bmi * rng.lognormal(0.01, 0.15, n), 15.5, 52.0)
    return height, np.round(bmi * (height / 100) ** 2, 1)


def _draw_diagnoses(
    rng: np.random.Generator, age: _Floats, sex: _Integers, body_mass_index: _Floats
) -> _Integers:
    """Draw the index of each person's diagnosis."""
    odds = np.exp(
        np.array([d.base for d in _DIAGNOSES])
        + np.outer((age - 50) / 10, [d.per_decade for d in _DIAGNOSES])
        + np.outer(body_mass_index - 26, [d.per_bmi_point for d in _DIAGNOSES])
        + np.outer(1 - sex, [d.for_women for d in _DIAGNOSES])
    )
    return _draw_columns(rng, odds)


def _draw_identifiers(rng: np.random.Generator, sex: _Integers) -> dict[str, AnyArray]:
    """Draw the columns person_id, full_name, email and national_id."""
    n = len(sex)
    person_id = rng.permutation(n) + 100_001
    given_names = np.array([_FEMALE_NAMES, _MALE_NAMES])
    given_name_index = (sex, rng.integers(given_names.shape[1], size=n))
    # Names at the start of the list are drawn more often: a few are frequent, and many are rare.
    family_name_index = (len(_FAMILY_NAMES) * rng.random(n) ** 1.6).astype(np.int64)
    # The multiplier has no common factor with 10**8, so the numbers stay distinct.
    national_number = 10**8 + (person_id * 48_271_397 + rng.integers(10**8)) % 10**8
    email = np.char.add(_to_ascii(given_names)[given_name_index], np.array(["."]))
    email = np.char.add(email, _to_ascii(_FAMILY_NAMES)[family_name_index])
    email = np.char.add(np.char.add(email, person_id.astype(np.str_)), np.array(["@example.org"]))
    given_names_and_blank = np.char.add(given_names, " ")
    return {
        "person_id": person_id,
        "full_name": np.char.add(
            given_names_and_blank[given_name_index], _FAMILY_NAMES[family_name_index]
        ),
        "email": email,
        "national_id": np.char.add("ZZ-", national_number.astype(np.str_)),
    }


def _draw_notes(rng: np.random.Generator, full_name: AnyArray) -> AnyArray:
    """Draw a note about each person, which starts with the name."""
    texts = np.array([f" {note}" for note in _NOTES])
    return np.char.add(full_name, texts[rng.integers(len(_NOTES), size=len(full_name))])


def _to_ascii(names: AnyArray) -> AnyArray:
    """Convert names to lower case without accents, as in an e-mail address."""
    replacements = {"ø": "o", "ı": "i", "ł": "l"}
    ascii_names = [
        "".join(replacements.get(c, c) for c in unicodedata.normalize("NFKD", name.lower()))
        .encode("ascii", "ignore")
        .decode()
        for name in names.ravel()
    ]
    return np.array(ascii_names).reshape(names.shape)


def _draw_columns(rng: np.random.Generator, weights: _Floats) -> _Integers:
    """Draw a column index for each row of (n, m) non-negative weights, in proportion to them."""
    cumulative = np.cumsum(weights, axis=1)
    thresholds = rng.random(len(weights)) * cumulative[:, -1]
    columns: _Integers = np.sum(thresholds[:, None] >= cumulative, axis=1)
    return columns


def _look_up(values: ArrayLike, index: _Integers) -> _Floats:
    """Return ``values[index]`` as float64."""
    return np.asarray(values, dtype=np.float64)[index]
