"""The rules of HIPAA Safe Harbor, 45 CFR 164.514(b)(2), that names and types of columns can break.

Safe Harbor lists 18 kinds of identifiers, (A) to (R), which a release must not contain. A *kind*
below is one of them. Columns are recognized by the words in their names, in English, by their
types, and by the lists of ``names``, which have further languages. Values are examined elsewhere:
see ``roles.looks_like_identifier``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dbanon.advice.names import (
    has_only_number_words,
    load_word_lists,
    names_household,
    names_person_identifier,
    split_name,
    suggests_identifier,
    words_in_name,
)
from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute, Kind

# Ages from this one on are released as one group.
OLDEST_GROUP = 90


@dataclass(frozen=True)
class IdentifierKind:
    """One of the 18 kinds of identifiers.

    Parameters
    ----------
    letter : its letter in 45 CFR 164.514(b)(2)(i).
    title : what it is, for messages.
    words : words that suffice in a name. Adjacent words of a name are also compared joined.
    numbered_words : words that count only together with a word for numbers, such as "id".
    """

    letter: str
    title: str
    words: frozenset[str] = frozenset()
    numbered_words: frozenset[str] = frozenset()


def _kind(letter: str, title: str, words: str = "", numbered: str = "") -> IdentifierKind:
    return IdentifierKind(letter, title, frozenset(words.split()), frozenset(numbered.split()))


NAMES = _kind(
    "A",
    "names",
    "name names fullname lastname firstname surname forename givenname middlename maidenname"
    " nickname fname lname mname initials alias signature employer employername nextofkin kin"
    " guardian spouse emergencycontact username",
)
PLACES = _kind(
    "B",
    "geographic parts smaller than a state",
    "street streetaddress address addressline housenumber apartment city town village hamlet county"
    " parish borough township municipality district precinct neighborhood neighbourhood suburb zip"
    " zipcode zip3 zip4 zip5 zip9 postal postcode postalcode zcta geocode geohash latitude"
    " longitude lat lon lng coordinate coordinates gps easting northing tract censustract"
    " blockgroup censusblock fips countyfips msa cbsa puma metropolitan location birthplace"
    " placeofbirth hometown residence",
)
DATES = _kind(
    "C",
    "elements of dates other than the year",
    "date dates datetime timestamp dob dod day month week weekday quarter",
)
AGES = _kind("C", "ages above 89", "age ages agegroup ageyears alter edad eta idade leeftijd")
BIRTH_YEARS = _kind("C", "years that show ages above 89")
PHOTOS = _kind(
    "Q",
    "photographs of faces and comparable images",
    "photo photos photograph photographs portrait portraits picture pictures image images"
    " faceimage selfie headshot avatar",
)
IP_ADDRESSES = _kind("O", "IP addresses", "ip ipaddress ipaddr ipv4 ipv6")
DEVICES = _kind(
    "M",
    "device identifiers and serial numbers",
    "imei imsi macaddress macaddr udi serial serialnumber serialno deviceidentifier",
    "device implant handset sim wearable pacemaker",
)
OTHER_IDENTIFIERS = _kind(
    "R",
    "other unique identifying numbers, characteristics or codes",
    "uuid guid barcode qrcode pseudonym pseudonymized hash token login",
    "person user case encounter specimen sample claim prescription admission invoice",
)
# A column has the first of these kinds whose words its name has. So those of which names say more
# come first: ``email_address`` is no street address.
_KINDS_BY_WORDS = (
    _kind("F", "e-mail addresses", "email emails emailaddress mail"),
    _kind("N", "web addresses", "url urls uri homepage website webpage webaddress"),
    IP_ADDRESSES,
    _kind("E", "fax numbers", "fax faxnumber faxno telefax"),
    _kind(
        "D",
        "telephone numbers",
        "phone phones telephone mobile cellphone tel telno phonenumber pager whatsapp",
        "contact cell",
    ),
    _kind("G", "social security numbers", "ssn ssns socialsecurity socialsecuritynumber"),
    _kind(
        "H",
        "medical record numbers",
        "mrn mrns empi medicalrecord medicalrecordnumber healthrecordnumber",
        "chart record",
    ),
    _kind(
        "I",
        "health plan beneficiary numbers",
        "mbi hicn",
        "beneficiary bene subscriber member policy plan healthplan insurance insured medicare"
        " medicaid enrollee",
    ),
    _kind("L", "vehicle identifiers", "vin licenseplate numberplate", "vehicle car plate"),
    _kind(
        "K",
        "certificate and license numbers",
        "passport driverlicense driverslicense drivinglicence drivinglicense",
        "certificate license licence permit visa driver drivers",
    ),
    _kind(
        "J", "account numbers", "iban bankaccount creditcard", "account acct card loan bank billing"
    ),
    DEVICES,
    _kind(
        "P",
        "biometric identifiers",
        "biometric biometrics fingerprint fingerprints voiceprint voiceprints faceprint palmprint"
        " irisscan retinascan",
    ),
    PHOTOS,
    NAMES,
    PLACES,
    OTHER_IDENTIFIERS,
)
# All 18 kinds; (C) has several rules.
KINDS = tuple(
    sorted((*_KINDS_BY_WORDS, DATES, AGES, BIRTH_YEARS), key=lambda kind: (kind.letter, kind.title))
)

# A name that ends with one of these words is about a property of an identifier, as ``phone_type``.
_LAST_DESCRIBING_WORDS = frozenset(
    {"type", "kind", "status", "category", "flag", "indicator", "count", "total", "rate", "ratio",
     "share", "pct", "percent", "unit", "units"}
)  # fmt: skip
# With these words at its end, a name may still be that of ages or places in coarser values, as
# ``age_category`` and ``zip3_category``.
_LAST_WORDS_OF_VALUES = frozenset({"type", "kind", "category"})
# A name that begins with one of these is that of a flag, or of a figure.
_FIRST_DESCRIBING_WORDS = frozenset({"is", "has", "was", "mean", "average", "avg", "count"})
# Words for ZIP codes, not for their last four digits alone.
_ZIP_WORDS = frozenset({"zip", "zipcode", "zip3", "zip5", "zip9", "zcta"})
# Names of these belong to persons: (A) covers employers.
_EMPLOYERS = frozenset(
    {"employer", "company", "firm", "business", "organisation", "organization", "org"}
)
# Types by the kind of identifiers that they hold. Binary data may be an image or a fingerprint.
_KINDS_BY_TYPE: Mapping[str, IdentifierKind] = {
    **dict.fromkeys(("inet", "cidr", "inet4", "inet6"), IP_ADDRESSES),
    **dict.fromkeys(("macaddr", "macaddr8"), DEVICES),
    "uuid": OTHER_IDENTIFIERS,
    **dict.fromkeys(
        ("bytea", "blob", "binary", "varbinary", "tinyblob", "mediumblob", "longblob"), PHOTOS
    ),
    **dict.fromkeys(
        ("point", "line", "lseg", "box", "path", "polygon", "circle", "geometry", "geography"),
        PLACES,
    ),
}


def find_identifier_kind(attribute: Attribute) -> IdentifierKind | None:
    """Return the kind of identifiers that a column seems to hold; None if it seems to hold none.

    ``AGES`` and ``BIRTH_YEARS`` are kinds that a release may contain if they are coded: see
    ``is_coded_as_required``.
    """
    type_name = attribute.sql_type.lower().partition("(")[0].strip()
    if attribute.kind in (Kind.DATE, Kind.TIMESTAMP):
        return DATES
    return _KINDS_BY_TYPE.get(type_name) or _find_kind_by_name(attribute.name)


def holds_zip_codes(attribute: Attribute) -> bool:
    """Return whether a column seems to hold ZIP codes as texts, and no other places."""
    words = words_in_name(attribute.name)
    is_named = bool(words & _ZIP_WORDS) and not words & (PLACES.words - _ZIP_WORDS)
    return attribute.kind is Kind.CATEGORY and is_named


def _find_kind_by_name(name: str) -> IdentifierKind | None:
    """Return the kind of identifiers that a name is for; None if it is for none."""
    words, lists = words_in_name(name), load_word_lists()
    name_words = split_name(name)
    if words & AGES.words and name_words[-1] not in _LAST_DESCRIBING_WORDS - _LAST_WORDS_OF_VALUES:
        return AGES
    if date_kind := _find_date_kind(name_words, words):
        return date_kind
    if name_words and name_words[0] in _FIRST_DESCRIBING_WORDS:
        return None
    if name_words and name_words[-1] in _LAST_DESCRIBING_WORDS:
        may_be_place = name_words[-1] in _LAST_WORDS_OF_VALUES and bool(words & PLACES.words)
        return PLACES if may_be_place else None
    has_number_word = bool(words & (lists["number"] | lists["joined"]))
    for kind in _KINDS_BY_WORDS:
        numbered_words = words & kind.numbered_words if has_number_word else frozenset[str]()
        joined_words = words & _join_with_numbers(kind.numbered_words)
        if kind is NAMES and words & kind.words and _names_a_thing(words):
            continue
        if words & kind.words or numbered_words or joined_words:
            return kind
    is_other_identifier = (
        suggests_identifier(name)
        or names_person_identifier(name)
        or names_household(name)
        or has_only_number_words(name)
    )
    return OTHER_IDENTIFIERS if is_other_identifier else None


def _find_date_kind(name_words: Sequence[str], words: frozenset[str]) -> IdentifierKind | None:
    """Return the kind of a column with dates or years of birth; None if it is neither.

    Years of other events are no elements of dates that Safe Harbor excludes.

    Parameters
    ----------
    name_words : the words of its name, in order.
    words : these words, and adjacent ones joined.
    """
    lists = load_word_lists()
    has_year = bool(words & {"year", "yob", "birthyear", "jahr", "gebjahr", "geburtsjahr"})
    has_part = bool(words & (DATES.words - {"date", "dates"}))
    is_birth = bool(words & lists["birth"])
    if has_year and not has_part:
        return BIRTH_YEARS if is_birth else None
    # A rate, such as ``hours_per_week``.
    if "per" in words:
        return None
    # By convention, names such as ``admitted_at`` are those of moments.
    is_moment = len(name_words) > 1 and name_words[-1] == "at"
    return DATES if words & DATES.words or is_birth or is_moment else None


def _join_with_numbers(words: Iterable[str]) -> frozenset[str]:
    """Return the words joined with words for numbers, such as ``accountno``."""
    return frozenset(
        word + number for word in words for number in ("id", "no", "nr", "num", "nbr", "number")
    )


def _names_a_thing(words: frozenset[str]) -> bool:
    """True if names are those of things, as in ``drug_name``, and not of persons or employers."""
    lists = load_word_lists()
    return bool(words & (lists["about"] | lists["sensitive"])) and not words & _EMPLOYERS


def is_coded_as_required(
    kind: IdentifierKind,
    name: str,
    *,
    top: Mapping[str, float],
    bottom: Mapping[str, float],
    recode: Mapping[str, Sequence[float]],
    year: int,
) -> bool:
    """True if ages, or years of birth, are coded so that ages above 89 are one group.

    Parameters
    ----------
    kind : the kind of the column; false for other kinds than ``AGES`` and ``BIRTH_YEARS``.
    name : the column.
    top, bottom, recode : the options of these names.
    year : the year of the release. Persons who were born in ``first_birth_year(year)`` or later
        have no age above 89 in it.
    """
    if kind is AGES:
        thresholds = [top[name]] if name in top else list(recode.get(name, ()))[-1:]
        return bool(thresholds) and thresholds[0] <= OLDEST_GROUP
    if kind is BIRTH_YEARS:
        thresholds = [bottom[name]] if name in bottom else list(recode.get(name, ()))[:1]
        return bool(thresholds) and thresholds[0] >= first_birth_year(year)
    return False


def first_birth_year(year: int) -> int:
    """Return the first year of birth of persons whose age is at most 89 in all of ``year``."""
    return year - OLDEST_GROUP + 1
