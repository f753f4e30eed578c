//! The fields of a head, in the order in which they came.
//!
//! A head has some ten of them, and each is looked at once or twice. To go through a list takes a
//! fraction of what it takes to hash their names for a [map](HeaderMap) and to find a place for each.

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// A list of fields, of which several may have one name. To look a name up is to go through the
/// list; how long it may be is for its maker to see to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(HeaderName, HeaderValue)>);

impl Fields {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// None yet, with room for so many.
    #[must_use]
    pub fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// The value of the first of that name.
    #[must_use]
    pub fn get(&self, name: HeaderName) -> Option<&HeaderValue> {
        self.get_all(name).next()
    }

    /// The values of all of that name.
    pub fn get_all(&self, name: HeaderName) -> impl Iterator<Item = &HeaderValue> {
        let of_that_name = move |field: &&(HeaderName, HeaderValue)| field.0 == name;
        self.0.iter().filter(of_that_name).map(|(_, value)| value)
    }

    /// Whether there is one of that name.
    #[must_use]
    pub fn has(&self, name: HeaderName) -> bool {
        self.get(name).is_some()
    }

    /// One more, whether or not there is one of that name.
    pub fn append(&mut self, name: HeaderName, value: HeaderValue) {
        self.0.push((name, value));
    }

    /// The only one of that name from now on.
    pub fn insert(&mut self, name: HeaderName, value: HeaderValue) {
        self.0.retain(|field| field.0 != name);
        self.append(name, value);
    }

    /// Takes all of that name out; the value of the first of them.
    pub fn remove(&mut self, name: HeaderName) -> Option<HeaderValue> {
        let mut first = None;
        self.0.retain_mut(|field| {
            let stays = field.0 != name;
            if !stays && first.is_none() {
                first = Some(field.1.clone());
            }
            stays
        });
        first
    }

    /// Takes out all that are not to be kept.
    pub fn retain(&mut self, mut keep: impl FnMut(&HeaderName, &HeaderValue) -> bool) {
        self.0.retain(|(name, value)| keep(name, value));
    }
}

impl FromIterator<(HeaderName, HeaderValue)> for Fields {
    fn from_iter<T: IntoIterator<Item = (HeaderName, HeaderValue)>>(fields: T) -> Self {
        Self(fields.into_iter().collect())
    }
}

impl From<HeaderMap> for Fields {
    fn from(map: HeaderMap) -> Self {
        let mut fields = Self::with_capacity(map.len());
        let mut last = None;
        for (name, value) in map {
            // The further ones of a name come without it.
            last = name.or(last);
            if let Some(name) = &last {
                fields.append(name.clone(), value);
            }
        }
        fields
    }
}

impl From<Fields> for HeaderMap {
    /// Of as many as a map may have, 24,576.
    fn from(fields: Fields) -> Self {
        let mut map = Self::with_capacity(fields.len());
        for (name, value) in fields.0 {
            map.append(name, value);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{ACCEPT, COOKIE, HOST, VARY};

    fn fields(list: &[(HeaderName, &'static str)]) -> Fields {
        let list = list.iter().cloned();
        list.map(|(name, value)| (name, HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn those_of_a_name_are_found_replaced_and_taken_out_together() {
        let mut list = fields(&[(VARY, "a"), (HOST, "h"), (VARY, "b")]);
        assert_eq!(list.get_all(VARY).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(list.get(VARY).unwrap(), "a");
        assert!(list.has(HOST) && !list.has(COOKIE));
        list.insert(VARY, HeaderValue::from_static("c"));
        assert_eq!(list, fields(&[(HOST, "h"), (VARY, "c")]));
        list.append(VARY, HeaderValue::from_static("d"));
        assert_eq!(list.remove(VARY).unwrap(), "c");
        assert_eq!(list.remove(VARY), None);
        list.append(ACCEPT, HeaderValue::from_static("e"));
        list.retain(|name, value| *name != HOST && value == "e");
        assert_eq!(list, fields(&[(ACCEPT, "e")]));
        assert_eq!((list.len(), list.is_empty()), (1, false));
    }

    #[test]
    fn a_map_has_the_same() {
        let list = fields(&[(COOKIE, "a"), (COOKIE, "b"), (HOST, "h"), (VARY, "v")]);
        assert_eq!(Fields::from(HeaderMap::from(list.clone())), list);
        let apart = fields(&[(COOKIE, "a"), (HOST, "h"), (COOKIE, "b")]);
        let map = HeaderMap::from(apart);
        assert_eq!(map.get_all(COOKIE).iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(map.len(), 3);
        assert_eq!(map[HOST], "h");
    }
}
