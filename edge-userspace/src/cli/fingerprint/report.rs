//! What `edge fingerprint` prints.

use crate::cli::output::{Outcome, many, print_json, print_line};
use crate::context::canonical::{Note, Notes, Where};
use crate::context::wire::Computed;
use crate::context::{Boundary, Chain};
use serde_json::{Value, json};

/// What is known of one request.
pub(super) struct Report {
    pub(super) wire: Option<Computed>,
    /// None: the beginning has no canonical form.
    pub(super) chain: Option<Chain>,
    pub(super) notes: Notes,
}

impl Report {
    /// For people.
    pub(super) fn print(&self) -> Outcome {
        if let Some(wire) = &self.wire {
            print_line(format_args!("{}", wire.fingerprint))?;
            print_line(format_args!(
                "  SHA-256 of: system ({}) | {} | model ({:?})",
                many(wire.system_bytes, "byte"),
                wire.history,
                wire.model
            ))?;
            print_line(format_args!(
                "  the middle is the SHA-256 of the contents of {}, joined by |",
                many(wire.messages, "message")
            ))?;
        }
        print_line("")?;
        match &self.chain {
            None => print_line(format_args!("No chain: {}", self.head_fault()))?,
            Some(chain) => self.print_chain(chain)?,
        }
        if let Some((message, fault)) = self.notes.message_fault {
            print_line(format_args!(
                "Message {message} has no canonical form: {}. It and what follows is found by nobody.",
                fault.text()
            ))?;
        }
        print_line("")?;
        if self.notes.notes.is_empty() {
            return print_line("Nothing is left out of the canonical form.");
        }
        print_line("Left out of the canonical form:")?;
        for note in &self.notes.notes {
            let (place, what) = (place(note), note.what);
            print_line(format_args!("  {place}: {}: {}", what.name(), what.why()))?;
        }
        if self.notes.more > 0 {
            print_line(format_args!("  and {} more", self.notes.more))?;
        }
        Ok(())
    }

    fn print_chain(&self, chain: &Chain) -> Outcome {
        print_line(
            "Chain, by a secret for demonstrations (each edge draws its own when it starts):",
        )?;
        print_line("  messages  prefix                            what it counts    the edge")?;
        for boundary in prefixes(chain) {
            let looked_for = looked_for(chain, boundary);
            let does = match (looked_for, is_stored(chain, boundary)) {
                (Some(nth), true) => format!("looks for it ({nth}), remembers it"),
                (Some(nth), false) => format!("looks for it ({nth})"),
                (None, true) => "remembers it".to_owned(),
                (None, false) => "passes it over".to_owned(),
            };
            let line = format!(
                "  {:>8}  {}  {:016x}  {does}",
                boundary.messages,
                name(boundary),
                boundary.exact
            );
            print_line(line)?;
        }
        Ok(())
    }

    /// For programs.
    pub(super) fn print_json(&self) -> Outcome {
        let wire = self.wire.as_ref();
        let chain = self.chain.as_ref().map(|chain| {
            let prefixes = prefixes(chain).map(|boundary| {
                json!({
                    "messages": boundary.messages,
                    "fingerprint": name(boundary),
                    "exact": format!("{:016x}", boundary.exact),
                    "looked_for": looked_for(chain, boundary),
                    "stored": is_stored(chain, boundary),
                })
            });
            json!({ "secret": "demonstration", "prefixes": prefixes.collect::<Vec<_>>() })
        });
        let left_out = self.notes.notes.iter().map(|note| {
            let (part, message) = match note.part {
                Where::System => ("system", Value::Null),
                Where::Tools => ("tools", Value::Null),
                Where::Message(message) => ("messages", message.into()),
            };
            json!({
                "part": part,
                "message": message,
                "block": note.block,
                "what": note.what.name(),
                "why": note.what.why(),
            })
        });
        let message_fault = self.notes.message_fault;
        let message_fault = message_fault
            .map(|(message, fault)| json!({ "message": message, "why": fault.text() }));
        print_json(&json!({
            "fingerprint": wire.map(|wire| wire.fingerprint.to_string()),
            "from": wire.map(|wire| json!({
                "system_bytes": wire.system_bytes,
                "history_sha256": wire.history.to_string(),
                "messages": wire.messages,
                "model": wire.model,
            })),
            "chain": chain,
            "no_chain": self.chain.is_none().then(|| self.head_fault()),
            "no_canonical_form": message_fault,
            "left_out": left_out.collect::<Vec<_>>(),
            "left_out_more": self.notes.more,
        }))
    }

    fn head_fault(&self) -> String {
        let fault = self.notes.head_fault;
        let why = fault.map_or("it is not whole", |fault| fault.text());
        format!("model, tools and system have no canonical form: {why}")
    }
}

fn prefixes(chain: &Chain) -> impl Iterator<Item = &Boundary> {
    chain.beginning().into_iter().chain(chain.boundaries())
}

/// Which of the look-ups it is, from 1.
fn looked_for(chain: &Chain, boundary: &Boundary) -> Option<usize> {
    let at = chain.probe().position(|probe| probe == boundary)?;
    Some(at + 1)
}

fn is_stored(chain: &Chain, boundary: &Boundary) -> bool {
    chain.stores().any(|store| store == boundary)
}

fn name(boundary: &Boundary) -> String {
    let [a, b] = boundary.fingerprint.words();
    format!("{a:016x}{b:016x}")
}

fn place(note: &Note) -> String {
    let part = match note.part {
        Where::System => "system".to_owned(),
        Where::Tools => match note.block {
            Some(tool) => return format!("tool {tool}"),
            None => "tools".to_owned(),
        },
        Where::Message(message) => format!("message {message}"),
    };
    match note.block {
        Some(block) => format!("{part}, block {block}"),
        None => part,
    }
}
