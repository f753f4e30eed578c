//! The table of the demo: every row, in order.

use super::row::{Act, Client, Header, Row, Sees, Token, Turn, Version};

/// A good request over HTTP/1.1 and IPv4 with a classic hello; rows differ from it.
const PLAIN: Row = Row {
    client: Client::Rustls,
    h2: false,
    post_quantum: false,
    v6: false,
    token: Token::Valid,
    header: Header::Own,
    version: Version::Good,
    act: Act::Stream,
    sees: Sees::Stream,
};

/// Every bad token, each of which the kernel must refuse by itself.
const BAD: [Token; 6] = [
    Token::UnknownKey,
    Token::FlippedTag,
    Token::Expired,
    Token::FromFuture,
    Token::Malformed,
    Token::Two,
];

/// The libraries that can offer a token.
const LIBRARIES: [Client; 3] = [Client::Rustls, Client::OpenSsl, Client::Python];

const INVALID_KEY: Sees = Sees::ErrorThenDead(401, "authentication_error", "Invalid Key");
const NEGOTIATE: Sees = Sees::Error(
    400,
    "invalid_request_error",
    "Routing layer requires version negotiation",
);

/// The demo, section by section.
pub(super) fn sections() -> Vec<(&'static str, Vec<Row>)> {
    vec![
        ("A good token: the zero lane", good()),
        (
            "A bad token, one-segment hello: refused, and by whom",
            bad(),
        ),
        (
            "The same bad token in a post-quantum hello of two segments",
            two_segments(),
        ),
        (
            "A token that was used: it opens no other connection",
            used(),
        ),
        ("No token: the legacy lane", legacy()),
        (
            "Through edge connect: programs that know nothing of tokens",
            through_connect(),
        ),
        (
            "Requests that are wrong inside a good connection",
            wrong_requests(),
        ),
        (
            "A conversation: what the edge knows of its beginning",
            conversation(),
        ),
        (
            "Clients that leave, and how soon the model notices",
            leaving(),
        ),
        ("A key that is revoked while it streams", revoked()),
    ]
}

fn good() -> Vec<Row> {
    vec![
        Row { h2: true, ..PLAIN },
        PLAIN,
        Row {
            h2: true,
            v6: true,
            ..PLAIN
        },
        Row {
            h2: true,
            post_quantum: true,
            ..PLAIN
        },
        Row {
            client: Client::OpenSsl,
            ..PLAIN
        },
        Row {
            client: Client::Python,
            v6: true,
            ..PLAIN
        },
        Row {
            client: Client::Python,
            act: Act::Ask,
            sees: Sees::Message,
            ..PLAIN
        },
    ]
}

fn bad() -> Vec<Row> {
    let mut rows = Vec::new();
    for token in BAD {
        for (client, v6) in LIBRARIES.map(|client| (client, false)) {
            rows.push(Row {
                client,
                v6,
                token,
                h2: client == Client::Rustls,
                sees: Sees::AccessDenied,
                ..PLAIN
            });
        }
    }
    for (client, token) in LIBRARIES.into_iter().zip(BAD) {
        rows.push(Row {
            client,
            token,
            v6: true,
            h2: client == Client::Rustls,
            sees: Sees::AccessDenied,
            ..PLAIN
        });
    }
    rows
}

fn two_segments() -> Vec<Row> {
    BAD.into_iter()
        .map(|token| Row {
            token,
            h2: true,
            post_quantum: true,
            sees: Sees::AccessDenied,
            ..PLAIN
        })
        .collect()
}

fn used() -> Vec<Row> {
    let one_segment = LIBRARIES.map(|client| Row {
        client,
        token: Token::Used,
        h2: client == Client::Rustls,
        sees: Sees::AccessDenied,
        ..PLAIN
    });
    let two_segments = Row {
        post_quantum: true,
        ..one_segment[0]
    };
    one_segment.into_iter().chain([two_segments]).collect()
}

fn legacy() -> Vec<Row> {
    let none = Row {
        token: Token::None,
        ..PLAIN
    };
    let unauthenticated = Sees::Error(401, "authentication_error", "");
    vec![
        Row {
            client: Client::Curl,
            h2: true,
            ..none
        },
        Row {
            client: Client::Curl,
            v6: true,
            act: Act::Ask,
            sees: Sees::Message,
            ..none
        },
        Row {
            client: Client::OpenSsl,
            ..none
        },
        Row {
            h2: true,
            post_quantum: true,
            ..none
        },
        Row {
            header: Header::None,
            sees: unauthenticated,
            ..none
        },
        Row {
            client: Client::Curl,
            h2: true,
            header: Header::None,
            sees: unauthenticated,
            ..none
        },
    ]
}

fn through_connect() -> Vec<Row> {
    // As rustls says hello when it is left to itself.
    let through = Row {
        client: Client::Connect,
        post_quantum: true,
        ..PLAIN
    };
    vec![
        through,
        Row {
            h2: true,
            v6: true,
            ..through
        },
        Row {
            act: Act::Ask,
            sees: Sees::Message,
            ..through
        },
    ]
}

fn wrong_requests() -> Vec<Row> {
    let twice = Row {
        header: Header::Other,
        act: Act::AskTwice,
        sees: INVALID_KEY,
        ..PLAIN
    };
    vec![
        Row { h2: true, ..twice },
        twice,
        Row {
            version: Version::Wrong,
            h2: true,
            sees: NEGOTIATE,
            ..PLAIN
        },
        Row {
            version: Version::Missing,
            client: Client::Python,
            sees: NEGOTIATE,
            ..PLAIN
        },
        Row {
            act: Act::NotTls,
            sees: Sees::PlainError(400, "TLS"),
            token: Token::None,
            ..PLAIN
        },
    ]
}

fn conversation() -> Vec<Row> {
    [Turn::First, Turn::Next, Turn::Other, Turn::OfAnotherKey]
        .map(|turn| Row {
            act: Act::Turn(turn),
            h2: true,
            ..PLAIN
        })
        .into()
}

fn leaving() -> Vec<Row> {
    let left = Row {
        sees: Sees::Left,
        ..PLAIN
    };
    vec![
        Row {
            act: Act::LeaveBeforeFirstByte,
            h2: true,
            ..left
        },
        Row {
            act: Act::LeaveBeforeFirstByte,
            ..left
        },
        Row {
            act: Act::LeaveMidStream,
            h2: true,
            ..left
        },
        Row {
            act: Act::LeaveMidStream,
            ..left
        },
        Row {
            act: Act::CancelStream,
            h2: true,
            ..left
        },
    ]
}

fn revoked() -> Vec<Row> {
    let event = Sees::ErrorEvent("authentication_error");
    vec![
        Row {
            act: Act::BeRevoked,
            h2: true,
            sees: event,
            ..PLAIN
        },
        Row {
            act: Act::ComeBackRevoked,
            h2: true,
            sees: Sees::AccessDenied,
            ..PLAIN
        },
        Row {
            act: Act::ComeBackRevoked,
            h2: true,
            post_quantum: true,
            sees: Sees::AccessDenied,
            ..PLAIN
        },
    ]
}
