//! A JSON object whose members stay as they came, in their order, but for those that are replaced.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// An object of raw members.
#[derive(Debug, Default)]
pub(super) struct Object<'a> {
    members: Vec<(Cow<'a, str>, Cow<'a, RawValue>)>,
}

impl<'a> Object<'a> {
    /// Parses an object; `None` for anything else.
    pub(super) fn parse(raw: &'a RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok()
    }

    /// A member as it is.
    pub(super) fn get(&self, key: &str) -> Option<&RawValue> {
        self.members.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_ref())
    }

    /// A member that is a string.
    pub(super) fn text(&self, key: &str) -> Option<Cow<'_, str>> {
        text(self.get(key)?)
    }

    /// Replaces a member, or adds it.
    pub(super) fn set(&mut self, key: &'static str, value: Box<RawValue>) {
        match self.members.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = Cow::Owned(value),
            None => self.members.push((Cow::Borrowed(key), Cow::Owned(value))),
        }
    }
}

/// A value that is a string.
pub(super) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str::<Text<'_>>(raw.get()).ok().map(|text| text.0)
}

/// A value of this crate's own. Its types have string keys only, which always serialize.
pub(super) fn value<T: Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<'a>(std::marker::PhantomData<&'a ()>);

        #[derive(Deserialize)]
        struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

        impl<'de: 'a, 'a> Visitor<'de> for Members<'a> {
            type Value = Object<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Key(key), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    members.push((key, Cow::Borrowed(value)));
                }
                Ok(Object { members })
            }
        }

        deserializer.deserialize_map(Members(std::marker::PhantomData))
    }
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.members.len()))?;
        for (key, value) in &self.members {
            map.serialize_entry(key, value.as_ref())?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_replaced_stays_as_it_came() {
        let text = r#"{"z":1.50,"a\n":{"b" : [1e3,null]},"path":"/x","a":18446744073709551616}"#;
        let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
        let mut object = Object::parse(&raw).unwrap();
        assert_eq!(serde_json::to_string(&object).unwrap(), text);
        object.set("path", value("/y"));
        object.set("new", value(&true));
        let expected =
            r#"{"z":1.50,"a\n":{"b" : [1e3,null]},"path":"/y","a":18446744073709551616,"new":true}"#;
        assert_eq!(serde_json::to_string(&object).unwrap(), expected);
        assert_eq!(object.text("path").unwrap(), "/y");
        assert_eq!(object.text("z"), None);
    }

    #[test]
    fn what_is_no_object() {
        for text in ["[]", "1", "null", "\"x\""] {
            let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
            assert!(Object::parse(&raw).is_none(), "{text}");
        }
    }
}
