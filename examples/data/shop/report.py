"""A line for each order, for the daily report."""

from shop.discount import total


def line(customer: str, prices: list[float]) -> str:
    return f"{customer};{total(prices):.2f}"


def rows(orders: dict[str, list[float]]) -> str:
    """All orders of a day. FIXME: a customer's name may hold a semicolon."""
    return "\n".join(line(customer, prices) for customer, prices in orders.items())
