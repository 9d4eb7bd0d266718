"""One module per API: the layout of its request and response.

Each module starts with a card: the served versions, what each version changed, and limits of this
broker. "flexible" means compact lengths and tagged fields (KIP-482).
"""
