"""Forms of identifiers: published examples have them, and ordinary values do not."""

from __future__ import annotations

import random

import pytest

from dbanon.advice.forms import (
    CODE,
    FLAG,
    find_common_form,
    find_form_of_texts,
    forms,
    is_identifying,
)

# Examples of the registers' own pages and of the standards, made up, and written in several ways.
EXAMPLES = {
    "e-mail address": ["anna@example.org", "a.b+c@mail.example.co.uk"],
    "UUID": ["123e4567-e89b-12d3-a456-426614174000", "{123E4567-E89B-12D3-A456-426614174000}"],
    "hash": ["d41d8cd98f00b204e9800998ecf8427e", "DA39A3EE5E6B4B0D3255BFEF95601890AFD80709"],
    "network address": ["192.168.0.1", "00:1b:44:11:3a:b7"],
    "web address": ["https://example.org/anna", "http://example.org/b"],
    "social security number": ["123-45-6789", "078-05-1120"],
    "phone number": [
        "+49 30 1234567",
        "(555) 234-5678",
        "030/1234567",
        "01 23 45 67 89",
        "+1-202-555-0143",
        "020 7946 0958",
        "090-1234-5678",
        "555-234-5678",
    ],
    "national number": [
        "010190-1234",
        "2341 2341 2346",
        "900101-1234567",
        "131052-308T",
        "BADD110313HCMLNS09",
    ],
    "IBAN": [
        "DE89 3704 0044 0532 0130 00",
        "GB29NWBK60161331926819",
        "FR1420041010050500013M02606",
        "NL91ABNA0417164300",
        "NO9386011117947",
        "MT84MALT011000012345MTLCAST001S",
    ],
    "card number": [
        "4111 1111 1111 1111",
        "5500-0055-5555-5559",
        "378282246310005",
        "6011111111111117",
        "5105105105105100",
    ],
}
# Numbers that pass the check digits of England, the Netherlands, Poland, Turkey, Brazil, China,
# Chile, Spain, Italy, Switzerland, France, Japan, Sweden and Canada.
CHECKED = [
    "943 476 5919",
    "111222333",
    "44051401359",
    "10000000146",
    "111.444.777-35",
    "11010519491231002X",
    "12.345.678-5",
    "12345678Z",
    "X1234567L",
    "RSSMRA85T10A562S",
    "756.9217.0769.85",
    "255081416802538",
    "123456789018",
    "811228-9874",
    "046 454 286",
]
ORDINARY = {
    "dates": ["2020-01-02", "2021-11-30", "1999-12-31", "2001-05-06", "2011-07-08", "2020-02-29"],
    "dates of a country": ["01.02.2020", "31.12.1999", "05.06.2001", "15.11.2011", "07.03.1987"],
    "dates with hyphens": ["01-02-2020", "12-31-1999", "05-06-2001", "11-15-2011", "07-03-1987"],
    "dates as numbers": ["20200102", "19991231", "20010506", "20111115", "19870307"],
    "times": ["2020-01-02 10:11:12", "2020-01-03 09:08:07", "2021-12-11 23:59:59", "1999-01-01"],
    "codes of diseases": ["E11.9", "I10", "J45.0", "M54.5", "K21.9", "Z00.00"],
    "codes of drugs": ["A10BA02", "C09AA05", "N02BE01", "R03AC02", "B01AC06"],
    "amounts": ["12345.67", "99.90", "100000.00", "5.25", "1234567.89", "17.00"],
    "amounts of nine digits": ["100000000", "250000000", "375000001", "410000007", "990000001"],
    "postal codes": ["10115", "80331", "20095", "50667", "01067", "99084"],
    "postal codes with four more": ["12345-6789", "02134-1234", "90210-0001", "60601-2222"],
    "postal codes of Britain": ["SW1A 1AA", "EC1A 1BB", "W1A 0AX", "M1 1AE", "B33 8TH"],
    "postal codes of Brazil": ["01310-100", "20040-020", "30110-005", "04538-132"],
    "ranges": ["[0, 10)", "[10, 20)", "20-29", "30-39", "1000-1999"],
    "versions": ["1.2.3", "10.0.1", "3.11", "2.0"],
    "cities": ["Berlin", "Hamburg", "München", "Köln", "Frankfurt"],
    "words": ["single", "married", "divorced", "widowed"],
    "phones without a country": ["1234567", "7654321", "5551234", "4443322"],
    "coordinates": ["52.5200, 13.4050", "48.1351, 11.5820", "50.9375, 6.9603"],
    "product numbers": ["4006381333931", "5901234123457", "9780306406157", "0012345678905"],
    "one letter": ["m", "f", "d", "x"],
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_have_their_form(name: str) -> None:
    assert find_form_of_texts(EXAMPLES[name]) == name
    for text in EXAMPLES[name]:
        assert any(form.matches(text) for form in forms() if form.name == name), name


@pytest.mark.parametrize("text", CHECKED)
def test_check_digits(text: str) -> None:
    numbers = [form for form in forms() if form.checks]
    assert any(form.matches(text) for form in numbers)
    # A changed digit breaks it; in registers that write ten as zero, all changes but one do.
    at = max(index for index, character in enumerate(text[:-1]) if character.isdigit())
    form = next(form for form in numbers if form.matches(text))
    others = [text[:at] + digit + text[at + 1 :] for digit in set("0123456789") - {text[at]}]
    assert sum(map(form.matches, others)) <= 1


@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_values_are_no_identifiers(kind: str) -> None:
    assert not is_identifying(find_form_of_texts(ORDINARY[kind]))
    assert not any(
        form.matches(text)
        for text in ORDINARY[kind]
        for form in forms()
        if is_identifying(form.name) and not form.checks
    )


def test_random_numbers_are_no_identifiers() -> None:
    rng = random.Random(5)
    for length in range(6, 20):
        for size in (5, 20, 300):
            texts = [str(rng.randrange(10 ** (length - 1), 10**length)) for _ in range(size)]
            assert find_form_of_texts(texts) == ""


def luhn(number: str) -> bool:
    """As in the standard: a doubled digit counts as the sum of its digits."""
    digits = [int(digit) for digit in reversed(number)]
    doubled = [sum(map(int, str(2 * digit))) for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def test_few_values_need_a_form_that_chance_does_not_make() -> None:
    # One in ten numbers of nine digits passes; two IBANs both do once in ten thousand times.
    valid = [str(n) for n in range(130_692_500, 130_692_600) if luhn(str(n))][:5]
    assert find_form_of_texts(valid[:4]) == ""
    assert is_identifying(find_form_of_texts(valid))
    assert find_form_of_texts(["a@b.org", "c@d.org"]) == "e-mail address"
    assert find_form_of_texts(["a@b.org"]) == ""
    assert find_form_of_texts([]) == ""


def test_one_in_ten_may_be_written_otherwise() -> None:
    emails = [f"{letter}@example.org" for letter in "abcdefghi"]
    assert find_form_of_texts([*emails, "unknown"]) == "e-mail address"
    assert find_form_of_texts([*emails[:8], "unknown", "none"]) == ""


@pytest.mark.parametrize("n_values", [1, 2, 9, 10, 11, 19, 20, 21, 100])
def test_a_form_has_nine_tenths_of_the_values_whichever_come_first(n_values: int) -> None:
    addresses = [f"a{n}@example.org" for n in range(n_values)]
    for n_words in range(n_values + 1):
        texts = [f"word {'x' * n}" for n in range(n_words)] + addresses[n_words:]
        counts = {i: sum(map(form.matches, texts)) for i, form in enumerate(forms())}
        assert find_form_of_texts(texts) == find_common_form(n_values, counts)


def test_flags_and_codes_are_no_identifiers_by_themselves() -> None:
    assert find_form_of_texts(["yes", "no"]) == FLAG
    assert find_form_of_texts(["0", "1"]) == FLAG
    assert find_form_of_texts([f"P{n:05}" for n in range(9)]) == CODE
    assert not is_identifying(FLAG)
    assert not is_identifying(CODE)


def test_patterns_are_what_all_databases_have_alike() -> None:
    for form in forms():
        assert form.pattern.isascii()
        assert not set(form.pattern) & set("\\'\"?%$*")
