//! Lists of tables whose fields are all texts, such as `[[regions]]`.

use super::problem::Problems;
use super::read::{Span, kind_of};
use std::fmt;
use toml::Spanned;
use toml::de::{DeArray, DeValue};

/// A field of such a table, and whether it must be written.
pub(super) type Field = (&'static str, bool);

/// One table: its texts in the order of its fields.
#[derive(Clone)]
pub(super) struct Table {
    texts: Vec<Option<String>>,
    pub(super) at: Span,
}

/// Without its place: two tables that stand elsewhere are not different for it.
impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.texts.fmt(f)
    }
}

impl Table {
    /// The text of the field of that number, if it is written.
    pub(super) fn text(&self, number: usize) -> Option<&str> {
        self.texts.get(number)?.as_deref()
    }
}

/// The tables of the list `section`; those with something wrong are told and left out.
pub(super) fn parse(
    section: &str,
    fields: &[Field],
    items: &DeArray<'_>,
    problems: &mut Problems<'_>,
) -> Vec<Table> {
    (items.iter())
        .filter_map(|item| table(section, fields, item, problems))
        .collect()
}

fn table(
    section: &str,
    fields: &[Field],
    item: &Spanned<DeValue<'_>>,
    problems: &mut Problems<'_>,
) -> Option<Table> {
    let names: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
    let DeValue::Table(written) = item.get_ref() else {
        problems.add(
            Some(item.span()),
            section,
            format!("{} stands in the list", kind_of(item)),
            format!(
                "write each as [[{section}]] with {} below",
                names.join(", ")
            ),
        );
        return None;
    };
    let mut table = Table {
        texts: vec![None; fields.len()],
        at: item.span(),
    };
    let mut good = true;
    for (key, value) in written {
        let mut wrong = |at: Span, what: String, cure: String| {
            problems.add(
                Some(at),
                &format!("{section}.{}", key.get_ref()),
                what,
                cure,
            );
            good = false;
        };
        let known = names.iter().position(|name| *name == &**key.get_ref());
        match (known, value.get_ref()) {
            (None, _) => wrong(
                key.span(),
                "there is no such field".to_owned(),
                format!("take it out; there are {}", names.join(", ")),
            ),
            (Some(_), DeValue::String(text)) if text.is_empty() => wrong(
                value.span(),
                "is empty".to_owned(),
                "write a text, or take it out".to_owned(),
            ),
            (Some(number), DeValue::String(text)) => {
                table.texts[number] = Some(text.clone().into_owned());
            }
            (Some(_), _) => wrong(
                value.span(),
                format!("{} stands there", kind_of(value)),
                "write a text".to_owned(),
            ),
        }
    }
    for (name, required) in fields {
        if *required && !written.contains_key(*name) {
            problems.add(
                Some(item.span()),
                &format!("{section}.{name}"),
                "is missing",
                format!("write {name} = … in [[{section}]]"),
            );
            good = false;
        }
    }
    good.then_some(table)
}
