"""Tools whose answers depend on their arguments alone, for the evaluations of the embedded model."""

from typing import Literal

from strands_cli import tool

WEATHER = {"paris": "18 degrees, cloudy", "oslo": "-3 degrees, snow", "cairo": "35 degrees, sunny"}
RATES = {("USD", "EUR"): 0.9, ("EUR", "USD"): 1.1, ("GBP", "EUR"): 1.2, ("EUR", "JPY"): 160.0}
CUSTOMERS = {
    42: ("Ada Berg", "ada@example.com"),
    7: ("Tom Reed", "tom@example.com"),
    118: ("Li Wei", "li@example.com"),
}


@tool
def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> str:
    """Get the current weather in a city.

    Args:
        city: The city's name
        unit: Unit of the temperature
    """
    return f"{city}: {WEATHER.get(city.lower(), '12 degrees, rain')}"


@tool
def convert_currency(amount: float, source: str, target: str) -> str:
    """Convert an amount of money from one currency to another at today's rate.

    Args:
        amount: How much
        source: Currency code to convert from, such as USD
        target: Currency code to convert to, such as EUR
    """
    return f"{amount * RATES.get((source.upper(), target.upper()), 2.0):g} {target.upper()}"


@tool
def send_email(to: str, body: str, subject: str = "") -> str:
    """Send an email to somebody.

    Args:
        to: The recipient's address
        body: The text of the email
        subject: The subject line
    """
    return "Email sent."


@tool
def translate(text: str, language: str) -> str:
    """Translate a text into another language.

    Args:
        text: The text to translate
        language: The language to translate into, such as French
    """
    return f"[{language}] {text}"


@tool
def get_customer(customer_id: int) -> str:
    """Look up a customer's record, with name and email address, by the customer's number.

    Args:
        customer_id: The customer's number
    """
    person, address = CUSTOMERS.get(customer_id, ("Max Doe", "max@example.com"))
    return f'{{"name": "{person}", "email": "{address}"}}'


@tool
def add_reminder(title: str, date: str) -> str:
    """Create a reminder in the user's calendar.

    Args:
        title: What to be reminded of
        date: The day, as YYYY-MM-DD
    """
    return "Reminder created."
