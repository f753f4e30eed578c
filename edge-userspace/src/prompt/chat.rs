//! What counts in a request of the Chat Completions API.
//!
//! Of each message every value that is a string, as OpenAI's own counting example has it
//! (cookbook, "How to count tokens with tiktoken"), the blocks of its content, and the calls of
//! tools; of the request the definitions of tools and functions and the schema of the answer.

use super::place::{Meaning, Part, Place, Use};

/// What the value of `key` at a place is; of an array's elements the key is empty.
pub(super) fn meaning(place: Place, key: &[u8]) -> Meaning {
    match (place, key) {
        (Place::Root, b"model") => Meaning::string(Use::Model),
        (Place::Root, b"max_tokens" | b"max_completion_tokens" | b"n") => {
            Meaning::string(Use::Number)
        }
        (Place::Root, b"messages") => Meaning::array(Place::Messages),
        (Place::Root, b"tools" | b"functions") => Meaning::array(Place::Tools),
        (Place::Root, b"response_format") => Meaning::object(Place::Json(Part::Tools)),
        (Place::Messages, _) => Meaning::object(Place::Message),
        (Place::Message, b"content") => Meaning::content(Part::Messages),
        (Place::Message, b"name") => Meaning::string(Use::Name(Part::Messages)),
        (Place::Message, b"tool_calls") => Meaning::array(Place::Calls),
        (Place::Message, b"function_call") => Meaning::object(Place::Function(Part::Messages)),
        (Place::Message, _) => Meaning::text(Part::Messages),
        (Place::Blocks(part), _) => Meaning {
            string: Use::Text(part),
            object: Place::Block(part),
            array: Place::Nothing,
        },
        (Place::Block(part), b"text" | b"refusal") => Meaning::text(part),
        (Place::Block(_), b"image_url") => Meaning {
            string: Use::PictureUrl,
            object: Place::Picture,
            array: Place::Nothing,
        },
        (Place::Block(_), b"input_audio" | b"file") => Meaning::object(Place::Opaque),
        (Place::Picture, b"url") => Meaning::string(Use::PictureUrl),
        (Place::Picture, b"detail") => Meaning::string(Use::Detail),
        (Place::Calls, _) => Meaning::object(Place::Call),
        (Place::Call, b"function" | b"custom") => Meaning::object(Place::Function(Part::Messages)),
        (Place::Tools, _) => Meaning::object(Place::Tool),
        (Place::Tool, b"function" | b"custom") => Meaning::object(Place::Function(Part::Tools)),
        // An entry of `functions` is the function itself.
        (Place::Tool, key) => function(Part::Tools, key),
        (Place::Function(part), key) => function(part, key),
        _ => Meaning::NOTHING,
    }
}

fn function(part: Part, key: &[u8]) -> Meaning {
    match key {
        b"name" | b"description" | b"arguments" | b"input" => Meaning::text(part),
        b"parameters" | b"format" => Meaning::json(part),
        _ => Meaning::NOTHING,
    }
}
