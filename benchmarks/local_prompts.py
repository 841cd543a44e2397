"""The prompts and the tools that the embedded model is measured with.

Each prompt says which calls are right and what the last answer must contain. Half of them are for tuning; the
other half, `TEST`, is only run to report. Which half a prompt is in stands here; nothing else decides it.
"""

from typing import Any

import msgspec

TUNING, TEST = "tuning", "test"


class Evaluates(msgspec.Struct, frozen=True):
    """Any arithmetic expression with this value."""

    value: float


class Contains(msgspec.Struct, frozen=True):
    """Any text with this in it, whatever the case."""

    text: str


class OneOf(msgspec.Struct, frozen=True):
    """Any of these, or nothing at all where None is among them."""

    values: tuple[Any, ...]


class Expected(msgspec.Struct, frozen=True):
    tool: str
    arguments: dict[str, Any]
    """What is not named here must be absent, or be the schema's default."""


class Prompt(msgspec.Struct, frozen=True):
    half: str
    text: str
    calls: tuple[Expected, ...] = ()
    answer: tuple[str, ...] = ()
    """The answer must contain one of these; nothing is asked of it when there are none."""

    @property
    def kind(self) -> str:
        return ("no-tool", "one-tool", "two-step")[len(self.calls)]


# --- Tools beside the native ones: a schema, and a canned answer that depends on the arguments alone --------

NATIVE = (
    "echo",
    "calculator",
    "current_time",
    "parse_json",
    "file_read",
    "file_write",
    "file_list",
    "file_search",
)


def _spec(name: str, description: str, required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required}
    return {"name": name, "description": description, "inputSchema": {"json": schema}}


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


SPECS = [
    _spec(
        "get_weather",
        "Get the current weather in a city.",
        ["city"],
        city=_text("The city's name"),
        unit=_text("Unit of the temperature", enum=["celsius", "fahrenheit"], default="celsius"),
    ),
    _spec(
        "convert_currency",
        "Convert an amount of money from one currency to another at today's rate.",
        ["amount", "source", "target"],
        amount={"type": "number", "description": "How much"},
        source=_text("Currency code to convert from, such as USD"),
        target=_text("Currency code to convert to, such as EUR"),
    ),
    _spec(
        "send_email",
        "Send an email to somebody.",
        ["to", "body"],
        to=_text("The recipient's address"),
        subject=_text("The subject line"),
        body=_text("The text of the email"),
    ),
    _spec(
        "translate",
        "Translate a text into another language.",
        ["text", "language"],
        text=_text("The text to translate"),
        language=_text("The language to translate into, such as French"),
    ),
    _spec(
        "get_customer",
        "Look up a customer's record, with name and email address, by the customer's number.",
        ["customer_id"],
        customer_id={"type": "integer", "description": "The customer's number"},
    ),
    _spec(
        "add_reminder",
        "Create a reminder in the user's calendar.",
        ["title", "date"],
        title=_text("What to be reminded of"),
        date=_text("The day, as YYYY-MM-DD"),
    ),
]

WEATHER = {"paris": "18 degrees, cloudy", "oslo": "-3 degrees, snow", "cairo": "35 degrees, sunny"}
RATES = {("USD", "EUR"): 0.9, ("EUR", "USD"): 1.1, ("GBP", "EUR"): 1.2, ("EUR", "JPY"): 160.0}
CUSTOMERS = {
    42: ("Ada Berg", "ada@example.com"),
    7: ("Tom Reed", "tom@example.com"),
    118: ("Li Wei", "li@example.com"),
}


def answer_of(name: str, arguments: dict[str, Any]) -> str:
    """What one of the tools above answers."""
    if name == "get_weather":
        return f"{arguments['city']}: {WEATHER.get(arguments['city'].lower(), '12 degrees, rain')}"
    if name == "convert_currency":
        rate = RATES.get((arguments["source"].upper(), arguments["target"].upper()), 2.0)
        return f"{arguments['amount'] * rate:g} {arguments['target'].upper()}"
    if name == "translate":
        return f"[{arguments['language']}] {arguments['text']}"
    if name == "get_customer":
        person, address = CUSTOMERS.get(arguments["customer_id"], ("Max Doe", "max@example.com"))
        return f'{{"name": "{person}", "email": "{address}"}}'
    return {"send_email": "Email sent.", "add_reminder": "Reminder created."}[name]


FILES = {
    "notes.txt": "Buy milk\nCall the plumber\n",
    "city.txt": "Oslo\n",
    "price.txt": "250\n",
    "report.md": "# Report\nRevenue grew by 12 percent.\n",
    "message.txt": "The meeting starts at nine.\n",
    "config.json": '{"name": "alpha", "port": 8080}\n',
    "users.json": '{"users": [{"name": "Ada"}, {"name": "Tom"}]}\n',
    "docs/guide.md": "TODO: write this\n",
    "todo.txt": "Water the plants\n",
}


# --- Prompts ------------------------------------------------------------------------------------------------


def _one(half: str, text: str, tool: str, arguments: dict[str, Any], *answer: str) -> Prompt:
    return Prompt(half, text, (Expected(tool, arguments),), answer)


def _two(half: str, text: str, first: Expected, second: Expected, *answer: str) -> Prompt:
    return Prompt(half, text, (first, second), answer)


ONE_TOOL = [
    _one(TUNING, "Echo this message: good morning", "echo", {"message": "good morning"}, "good morning"),
    _one(
        TUNING,
        "Use the echo tool to repeat: testing 1 2 3",
        "echo",
        {"message": "testing 1 2 3"},
        "testing 1 2 3",
    ),
    _one(TUNING, "What is 17 * 23?", "calculator", {"expression": Evaluates(391)}, "391"),
    _one(TUNING, "Compute (45 + 55) / 4 for me.", "calculator", {"expression": Evaluates(25)}, "25"),
    _one(TUNING, "What's the square root of 1764?", "calculator", {"expression": Evaluates(42)}, "42"),
    _one(
        TUNING,
        "What time is it in Europe/Berlin?",
        "current_time",
        {"timezone": "Europe/Berlin", "format": OneOf((None, "time", "iso"))},
    ),
    _one(
        TUNING,
        "Tell me the current time in UTC.",
        "current_time",
        {"timezone": OneOf((None, "UTC")), "format": OneOf((None, "time", "iso"))},
    ),
    _one(TUNING, "Read the file notes.txt", "file_read", {"path": "notes.txt"}, "milk"),
    _one(TUNING, "Show me what is in report.md", "file_read", {"path": "report.md"}, "Revenue", "12"),
    _one(
        TUNING,
        "Write the text hello world to the file out.txt",
        "file_write",
        {"path": "out.txt", "content": "hello world", "mode": OneOf((None, "create", "overwrite"))},
    ),
    _one(
        TUNING,
        "Which files are in the docs directory?",
        "file_list",
        {
            "path": OneOf(("docs", "docs/", "./docs")),
            "pattern": OneOf((None, "*")),
            "recursive": OneOf((None, True)),
        },
        "guide.md",
    ),
    _one(
        TUNING,
        "Search the files for the word TODO",
        "file_search",
        {
            "pattern": "TODO",
            "glob": OneOf((None, "*", "**/*", "*.*")),
            "max_results": OneOf((None, 100, 1000)),
        },
        "guide.md",
        "write this",
    ),
    _one(
        TUNING,
        "What does the query 'port' return for the JSON file config.json?",
        "parse_json",
        {"path": "config.json", "query": OneOf(("port", "/port"))},
        "8080",
    ),
    _one(TUNING, "How is the weather in Paris?", "get_weather", {"city": "Paris"}, "18", "cloudy"),
    _one(
        TUNING,
        "I need the temperature in Cairo in fahrenheit.",
        "get_weather",
        {"city": "Cairo", "unit": "fahrenheit"},
        "35",
    ),
    _one(
        TUNING,
        "Convert 200 USD to EUR",
        "convert_currency",
        {"amount": 200, "source": "USD", "target": "EUR"},
        "180",
    ),
    _one(
        TUNING,
        "Translate 'good night' into French",
        "translate",
        {"text": "good night", "language": "French"},
    ),
    _one(
        TUNING,
        "Send an email to bob@example.com that says: lunch is ready",
        "send_email",
        {"to": "bob@example.com", "subject": OneOf((None, Contains(""))), "body": Contains("lunch is ready")},
        "sent",
        "bob",
    ),
    _one(TUNING, "Who is customer number 42?", "get_customer", {"customer_id": 42}, "Ada"),
    _one(
        TUNING,
        "Remind me on 2026-12-24 to buy a tree",
        "add_reminder",
        {"title": Contains("buy a tree"), "date": "2026-12-24"},
    ),
    _one(
        TUNING, "Please echo the words: see you later", "echo", {"message": "see you later"}, "see you later"
    ),
    _one(
        TUNING,
        "Repeat this text with the echo tool: the quick brown fox",
        "echo",
        {"message": "the quick brown fox"},
        "the quick brown fox",
    ),
    _one(TUNING, "Calculate 144 / 12 + 7", "calculator", {"expression": Evaluates(19)}, "19"),
    _one(
        TUNING,
        "How much is 2 to the power of 10?",
        "calculator",
        {"expression": Evaluates(1024)},
        "1024",
        "1,024",
    ),
    _one(TUNING, "What is 98 minus 39?", "calculator", {"expression": Evaluates(59)}, "59"),
    _one(
        TUNING,
        "What is the time in Asia/Tokyo right now?",
        "current_time",
        {"timezone": "Asia/Tokyo", "format": OneOf((None, "time", "iso"))},
    ),
    _one(
        TUNING,
        "What is the current date and time in America/New_York?",
        "current_time",
        {"timezone": "America/New_York", "format": OneOf((None, "iso"))},
    ),
    _one(TUNING, "Open the file todo.txt and show me the text", "file_read", {"path": "todo.txt"}, "plants"),
    _one(TUNING, "What does the file message.txt say?", "file_read", {"path": "message.txt"}, "nine"),
    _one(
        TUNING,
        "Save the text buy bread into the file list.txt",
        "file_write",
        {"path": "list.txt", "content": "buy bread", "mode": OneOf((None, "create", "overwrite"))},
    ),
    _one(
        TUNING,
        "List all files in the directory docs",
        "file_list",
        {
            "path": OneOf(("docs", "docs/", "./docs")),
            "pattern": OneOf((None, "*")),
            "recursive": OneOf((None, True)),
        },
        "guide.md",
    ),
    _one(
        TUNING,
        "Find all lines in the files that contain Revenue",
        "file_search",
        {
            "pattern": Contains("Revenue"),
            "glob": OneOf((None, "*", "**/*", "*.*")),
            "max_results": OneOf((None, 100, 1000)),
        },
        "12",
        "report.md",
    ),
    _one(
        TUNING,
        "Get the value at users[0].name from the JSON file users.json",
        "parse_json",
        {"path": "users.json", "query": "users[0].name"},
        "Ada",
    ),
    _one(TUNING, "What's the weather like in Oslo today?", "get_weather", {"city": "Oslo"}, "snow", "-3"),
    _one(TUNING, "Is it warm in Lisbon at the moment?", "get_weather", {"city": "Lisbon"}, "12", "rain"),
    _one(
        TUNING,
        "How many dollars are 50 euros? Convert 50 EUR to USD.",
        "convert_currency",
        {"amount": 50, "source": "EUR", "target": "USD"},
        "55",
    ),
    _one(
        TUNING,
        "Translate the sentence 'where is the station' to Spanish",
        "translate",
        {"text": "where is the station", "language": "Spanish"},
    ),
    _one(
        TUNING,
        "Email carol@example.com the message: the parcel arrived",
        "send_email",
        {
            "to": "carol@example.com",
            "subject": OneOf((None, Contains(""))),
            "body": Contains("the parcel arrived"),
        },
        "sent",
        "carol",
    ),
    _one(TUNING, "Look up the record of customer 118", "get_customer", {"customer_id": 118}, "Li Wei"),
    _one(
        TUNING,
        "Set a reminder for 2027-01-05: call the dentist",
        "add_reminder",
        {"title": Contains("call the dentist"), "date": "2027-01-05"},
    ),
]

TWO_STEP = [
    _two(
        TUNING,
        "Calculate 12 * 12 and then echo the result.",
        Expected("calculator", {"expression": Evaluates(144)}),
        Expected("echo", {"message": Contains("144")}),
        "144",
    ),
    _two(
        TUNING,
        "Read city.txt, then tell me the weather in the city that is named there.",
        Expected("file_read", {"path": "city.txt"}),
        Expected("get_weather", {"city": "Oslo"}),
        "snow",
        "-3",
    ),
    _two(
        TUNING,
        "What is the weather in Cairo? Write the answer to the file weather.txt.",
        Expected("get_weather", {"city": "Cairo"}),
        Expected(
            "file_write",
            {"path": "weather.txt", "content": Contains("35"), "mode": OneOf((None, "create", "overwrite"))},
        ),
    ),
    _two(
        TUNING,
        "Read message.txt and translate its text into German.",
        Expected("file_read", {"path": "message.txt"}),
        Expected("translate", {"text": Contains("The meeting starts at nine"), "language": "German"}),
    ),
    _two(
        TUNING,
        "Look up customer 7 and send them an email that says: your order has shipped",
        Expected("get_customer", {"customer_id": 7}),
        Expected(
            "send_email",
            {
                "to": "tom@example.com",
                "subject": OneOf((None, Contains(""))),
                "body": Contains("your order has shipped"),
            },
        ),
    ),
    _two(
        TUNING,
        "Convert 100 USD to EUR, then write the result to money.txt.",
        Expected("convert_currency", {"amount": 100, "source": "USD", "target": "EUR"}),
        Expected(
            "file_write",
            {"path": "money.txt", "content": Contains("90"), "mode": OneOf((None, "create", "overwrite"))},
        ),
    ),
    _two(
        TUNING,
        "Read price.txt and multiply the number in it by 4.",
        Expected("file_read", {"path": "price.txt"}),
        Expected("calculator", {"expression": Evaluates(1000)}),
        "1000",
        "1,000",
    ),
    _two(
        TUNING,
        "First get the weather in Paris, then get the weather in Oslo.",
        Expected("get_weather", {"city": "Paris"}),
        Expected("get_weather", {"city": "Oslo"}),
        "snow",
        "-3",
    ),
    _two(
        TUNING,
        "Work out 15 + 27 and echo what comes out.",
        Expected("calculator", {"expression": Evaluates(42)}),
        Expected("echo", {"message": Contains("42")}),
        "42",
    ),
    _two(
        TUNING,
        "Read the file city.txt and get the weather for the city in it.",
        Expected("file_read", {"path": "city.txt"}),
        Expected("get_weather", {"city": "Oslo"}),
        "snow",
        "-3",
    ),
    _two(
        TUNING,
        "Get the weather in Paris and save it to the file paris.txt.",
        Expected("get_weather", {"city": "Paris"}),
        Expected(
            "file_write",
            {"path": "paris.txt", "content": Contains("18"), "mode": OneOf((None, "create", "overwrite"))},
        ),
    ),
    _two(
        TUNING,
        "Read todo.txt and translate what it says into Italian.",
        Expected("file_read", {"path": "todo.txt"}),
        Expected("translate", {"text": Contains("Water the plants"), "language": "Italian"}),
    ),
    _two(
        TUNING,
        "Find customer 42 and email them this text: thank you for your visit",
        Expected("get_customer", {"customer_id": 42}),
        Expected(
            "send_email",
            {
                "to": "ada@example.com",
                "subject": OneOf((None, Contains(""))),
                "body": Contains("thank you for your visit"),
            },
        ),
    ),
    _two(
        TUNING,
        "Convert 10 GBP to EUR and then echo the converted amount.",
        Expected("convert_currency", {"amount": 10, "source": "GBP", "target": "EUR"}),
        Expected("echo", {"message": Contains("12")}),
        "12",
    ),
    _two(
        TUNING,
        "Read price.txt and divide the number in it by 5.",
        Expected("file_read", {"path": "price.txt"}),
        Expected("calculator", {"expression": Evaluates(50)}),
        "50",
    ),
    _two(
        TUNING,
        "Check the weather in Cairo first, and after that the weather in Paris.",
        Expected("get_weather", {"city": "Cairo"}),
        Expected("get_weather", {"city": "Paris"}),
        "18",
        "cloudy",
    ),
]

NO_TOOL = [
    *(
        Prompt(TUNING, text)
        for text in (
            "What is the capital of France?",
            "Write a haiku about autumn.",
            "Thank you, that was helpful!",
            "Explain in one sentence what a database is.",
            "Who wrote Romeo and Juliet?",
            "Hi there! How are you?",
            "Give me three names for a cat.",
            "Why is the sky blue?",
            "What is the difference between a list and a tuple in Python?",
            "Tell me a joke.",
        )
    ),
    *(
        Prompt(TUNING, text)
        for text in (
            "What is the largest planet of the solar system?",
            "Write two lines of poetry about the sea.",
            "Great, thanks a lot!",
            "Explain what recursion means.",
            "Who painted the Mona Lisa?",
            "Hello! Nice to meet you.",
            "Suggest a title for a novel about winter.",
            "Why do leaves fall from trees?",
            "What is an HTTP status code?",
            "What is a good way to learn a new language?",
        )
    ),
]

_ANY_MODE = OneOf((None, "create", "overwrite"))
_ANY_FORMAT = OneOf((None, "iso", "time", "date"))
_ANYTHING = OneOf((None, Contains("")))

HELD_OUT = [
    _one(TEST, "Echo the phrase: never give up", "echo", {"message": "never give up"}, "never give up"),
    _one(
        TEST, "Please echo this: room 12 is free", "echo", {"message": "room 12 is free"}, "room 12 is free"
    ),
    _one(TEST, "What is 56 * 4?", "calculator", {"expression": Evaluates(224)}, "224"),
    _one(TEST, "Calculate the sum of 120 and 85", "calculator", {"expression": Evaluates(205)}, "205"),
    _one(TEST, "Divide 1000 by 8, please.", "calculator", {"expression": Evaluates(125)}, "125"),
    _one(
        TEST,
        "What time is it in Europe/Paris?",
        "current_time",
        {"timezone": "Europe/Paris", "format": _ANY_FORMAT},
    ),
    _one(
        TEST,
        "Give me the current time in Australia/Sydney",
        "current_time",
        {"timezone": "Australia/Sydney", "format": _ANY_FORMAT},
    ),
    _one(TEST, "Read report.md for me", "file_read", {"path": "report.md"}, "Revenue", "12"),
    _one(TEST, "Show the contents of the file city.txt", "file_read", {"path": "city.txt"}, "Oslo"),
    _one(
        TEST,
        "Write the text meeting moved to the file memo.txt",
        "file_write",
        {"path": "memo.txt", "content": "meeting moved", "mode": _ANY_MODE},
    ),
    _one(
        TEST,
        "What files does the directory docs contain?",
        "file_list",
        {
            "path": OneOf(("docs", "docs/", "./docs")),
            "pattern": OneOf((None, "*")),
            "recursive": OneOf((None, True)),
        },
        "guide.md",
    ),
    _one(
        TEST,
        "Search all files for the text plumber",
        "file_search",
        {
            "pattern": "plumber",
            "glob": OneOf((None, "*", "**/*", "*.*")),
            "max_results": OneOf((None, 100, 1000)),
        },
        "notes.txt",
        "plumber",
    ),
    _one(TEST, "Parse the JSON file config.json", "parse_json", {"path": "config.json"}, "alpha", "8080"),
    _one(TEST, "Tell me the weather in Madrid", "get_weather", {"city": "Madrid"}, "12", "rain"),
    _one(TEST, "What is the weather in Cairo right now?", "get_weather", {"city": "Cairo"}, "35", "sunny"),
    _one(
        TEST,
        "Convert 30 GBP to EUR please",
        "convert_currency",
        {"amount": 30, "source": "GBP", "target": "EUR"},
        "36",
    ),
    _one(TEST, "Translate 'thank you' to German", "translate", {"text": "thank you", "language": "German"}),
    _one(
        TEST,
        "Send dave@example.com an email saying: the train is late",
        "send_email",
        {"to": "dave@example.com", "subject": _ANYTHING, "body": Contains("the train is late")},
        "sent",
        "dave",
    ),
    _one(TEST, "Show me the details of customer 7", "get_customer", {"customer_id": 7}, "Tom"),
    _one(
        TEST,
        "Create a reminder on 2027-03-01 to pay the rent",
        "add_reminder",
        {"title": Contains("pay the rent"), "date": "2027-03-01"},
    ),
    _two(
        TEST,
        "Calculate 9 * 8, then echo the result.",
        Expected("calculator", {"expression": Evaluates(72)}),
        Expected("echo", {"message": Contains("72")}),
        "72",
    ),
    _two(
        TEST,
        "Read city.txt. Then get the weather in that city.",
        Expected("file_read", {"path": "city.txt"}),
        Expected("get_weather", {"city": "Oslo"}),
        "snow",
        "-3",
    ),
    _two(
        TEST,
        "Convert 50 USD to EUR and write the amount to euros.txt.",
        Expected("convert_currency", {"amount": 50, "source": "USD", "target": "EUR"}),
        Expected("file_write", {"path": "euros.txt", "content": Contains("45"), "mode": _ANY_MODE}),
    ),
    _two(
        TEST,
        "Read notes.txt and translate the text into Spanish.",
        Expected("file_read", {"path": "notes.txt"}),
        Expected("translate", {"text": Contains("Buy milk"), "language": "Spanish"}),
    ),
    _two(
        TEST,
        "Look up customer 118, then send them an email that says: we miss you",
        Expected("get_customer", {"customer_id": 118}),
        Expected(
            "send_email", {"to": "li@example.com", "subject": _ANYTHING, "body": Contains("we miss you")}
        ),
    ),
    _two(
        TEST,
        "Read price.txt and add 50 to the number in it.",
        Expected("file_read", {"path": "price.txt"}),
        Expected("calculator", {"expression": Evaluates(300)}),
        "300",
    ),
    _two(
        TEST,
        "Tell me the weather in Oslo, and then the weather in Cairo.",
        Expected("get_weather", {"city": "Oslo"}),
        Expected("get_weather", {"city": "Cairo"}),
        "35",
        "sunny",
    ),
    _two(
        TEST,
        "Get the weather in Paris, then email it to eve@example.com.",
        Expected("get_weather", {"city": "Paris"}),
        Expected("send_email", {"to": "eve@example.com", "subject": _ANYTHING, "body": Contains("18")}),
    ),
    *(
        Prompt(TEST, text)
        for text in (
            "Who discovered penicillin?",
            "Write a short slogan for a bakery.",
            "You are very kind, thanks.",
            "What does photosynthesis mean?",
            "Good evening!",
            "Name a famous river in Egypt.",
            "How do birds fly?",
            "What is the difference between HTTP and HTTPS?",
            "Give me advice for a job interview.",
            "Why is sleep important?",
        )
    ),
]
"""Written after the rest had been seen, and run once, to report."""

PROMPTS: list[Prompt] = [*ONE_TOOL, *TWO_STEP, *NO_TOOL, *HELD_OUT]

ECHOED = [
    "Hello, World!",
    'He said "stop" and left.',
    "It's 5 o'clock.",
    "12345",
    "3.14159 is not 22/7",
    "Grüße aus Köln",
    "naïve café",
    "こんにちは世界",
    "Привет, мир",
    "smile 😀 please",
    "a/b\\c",
    "100% sure (really)",
    "key=value; other=2",
    "email me at a.b@example.org",
    "{curly} [square] <angle>",
    "UPPER lower MiXeD",
    "Order #4711 costs €9.99",
    "one, two; three: four",
    'Don\'t panic -- "42" is the answer',
    "tabs and   three spaces",
]
"""Messages that the echo demo has to return verbatim."""
