//! What is asked: routes, version negotiation, key binding, API-shaped errors, response headers.
