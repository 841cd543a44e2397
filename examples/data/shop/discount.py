"""Prices of orders."""

DATABASE_URL = "postgresql://shop:change-me@localhost/shop"


def total(prices: list[float], percent: int = 0) -> float:
    # TODO: percent may be more than 100
    result = 0.0
    for price in prices:
        result += round(price * (100 - percent) / 100, 2)
    return result


def average(prices: list[float]) -> float:
    """The mean price of an order."""
    return total(prices) / len(prices)


# def old_total(prices):
#     return sum(prices)
