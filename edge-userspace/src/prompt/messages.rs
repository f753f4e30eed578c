//! What counts in a request of the Messages API.
//!
//! System (a string or blocks), tools (name, description, schema), and of each message every
//! content block: text, thinking, calls of tools and their results with what is nested in
//! them (what programs said that the upstream ran, too), documents, pictures. What the API does
//! not give to the model (ids, signatures, cache marks, redacted thinking) does not count. Block
//! and field names are those of the official SDK's types, version 1.14.

use super::place::{Meaning, Part, Place, Use};

/// What the value of `key` at a place is; of an array's elements the key is empty.
pub(super) fn meaning(place: Place, key: &[u8]) -> Meaning {
    match (place, key) {
        (Place::Root, b"model") => Meaning::string(Use::Model),
        (Place::Root, b"max_tokens" | b"max_completion_tokens" | b"n") => {
            Meaning::string(Use::Number)
        }
        (Place::Root, b"system") => Meaning::content(Part::System),
        (Place::Root, b"messages") => Meaning::array(Place::Messages),
        (Place::Root, b"tools") => Meaning::array(Place::Tools),
        // The schema of the answer is put before the model.
        (Place::Root, b"output_format" | b"output_config") => {
            Meaning::object(Place::Json(Part::Tools))
        }
        (Place::Messages, _) => Meaning::object(Place::Message),
        (Place::Message, b"content") => Meaning::content(Part::Messages),
        (Place::Blocks(part), _) => Meaning {
            string: Use::Text(part),
            object: Place::Block(part),
            array: Place::Nothing,
        },
        (Place::Block(part), key) => block(part, key),
        (Place::Source(part), key) => source(part, key),
        (Place::Tools, _) => Meaning::object(Place::Tool),
        (Place::Tool, b"name" | b"description") => Meaning::text(Part::Tools),
        (Place::Tool, b"input_schema" | b"input_examples") => Meaning::json(Part::Tools),
        _ => Meaning::NOTHING,
    }
}

fn block(part: Part, key: &[u8]) -> Meaning {
    match key {
        b"type" => Meaning::string(Use::BlockType),
        b"text" | b"thinking" | b"name" | b"title" | b"context" => Meaning::text(part),
        // What a program said that the upstream ran, and why it could not; what an editor changed.
        b"stdout" | b"stderr" | b"error_message" => Meaning::text(part),
        b"lines" => Meaning::array(Place::Blocks(part)),
        b"encrypted_stdout" | b"encrypted_content" => Meaning::string(Use::Encrypted),
        b"input" => Meaning::json(part),
        b"content" => Meaning::content(part),
        // A search result names its source, a picture or document has it.
        b"source" => Meaning {
            string: Use::Text(part),
            object: Place::Source(part),
            array: Place::Nothing,
        },
        _ => Meaning::NOTHING,
    }
}

fn source(part: Part, key: &[u8]) -> Meaning {
    match key {
        b"type" => Meaning::string(Use::SourceType),
        b"data" => Meaning::string(Use::Data(part)),
        b"url" | b"file_id" => Meaning::string(Use::Elsewhere),
        b"content" => Meaning::content(part),
        _ => Meaning::NOTHING,
    }
}
